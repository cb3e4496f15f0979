// The trials of a run, as the charts ask for them.
const metrics = data.metrics;
const metricNamed = (name) => metrics.find((metric) => metric.name === name);
const heading = (metric) => (metric.unit ? `${metric.name} (${metric.unit})` : metric.name);

for (const trial of data.trials) {
  trial.configuration =
      data.knobs.map((knob, i) => (trial.choices[i] < 0 ? null : knob.values[trial.choices[i]]));
  trial.ok = trial.outcome === undefined;
}
const trialNumbered = (number) => data.trials.find((trial) => trial.trial === number);
const okTrials = data.trials.filter((trial) => trial.ok);
const variedKnobs =
    data.knobs.map((knob, i) => ({...knob, index: i})).filter((knob) => knob.values.length > 1);

// {value, low, high, n, p99, origin, stopped} in the unit of the metric's heading; null: not known.
function measured(cells, metric) {
  if (!cells) return null;
  const scaled = (value) => (value === null || value === undefined ? null : value * metric.scale);
  return {
    value: scaled(cells[0]),
    low: scaled(cells[1]),
    high: scaled(cells[2]),
    n: cells[3],
    p99: scaled(cells[4]),
    origin: cells[5] || "measured",
    stopped: data.stopped[cells[6]] || ""
  };
}
const valueOf = (trial, metric) =>
    (trial.ok && metric ? measured(trial.metrics[metrics.indexOf(metric)], metric) : null);

function withInterval(value) {
  if (!value) return "-";
  const interval = value.low === null ? "" : ` (${digits(value.low)} to ${digits(value.high)})`;
  return digits(value.value) + interval + (value.origin === "measured" ? "" : " " + value.origin);
}

// "expert_quant int8, top_k 7": what differs from the default.
function changes(trial) {
  const usual = trialNumbered(0);
  const words = data.knobs.flatMap(
      (knob, i) =>
          trial.configuration[i] !== null && (!usual || trial.configuration[i] !== usual.configuration[i]) ?
          [`${knob.name} ${trial.configuration[i]}`] :
          []);
  return words.length ? words.join(", ") : "the default configuration";
}

function roleOf(trial) {
  if (!trial.ok) return "failed";
  if (trial.trial === data.recommended) return "recommended";
  if (trial.trial === 0) return "default";
  if (trial.gate === "missed") return "missed";
  return trial.front ? "front" : "other";
}

const roleWords = {
  recommended: "recommended",
  default: "default",
  front: "on the front",
  other: "another trial",
  missed: `misses the ${data.gate} gate`,
  failed: "failed"
};
function roleText(trial) {
  const words = [roleWords[roleOf(trial)]];
  if (trial.trial === data.runner_up) words.push("runner-up");
  if (trial.front && roleOf(trial) !== "front") words.push("on the front");
  if (trial.gate === "unknown") words.push("accuracy not known");
  return words.join(", ");
}

// In chunks that belong on one line each.
// "moetune measure ..." of the trial, or another command that takes the same options.
const measureCommand = (trial, command = "measure") =>
    [data.measure.map((word, i) => shellWord(i === 1 ? command : word)).join(" "),
     ...data.knobs.flatMap((knob, i) => (trial.configuration[i] === null ? [] : [
                             "--set " + shellWord(`${knob.name}=${trial.configuration[i]}`)
                           ]))];

// Trials that equal this one in every knob but one.
const keyWithout = (trial, index) => trial.choices.map((each, i) => (i === index ? "" : each)).join(" ");

// Small first, so that what matters is drawn on top.
const drawOrder = ["missed", "other", "front", "default", "recommended"];
