// What each knob does to a metric: all trials by its value, and the change over pairs that differ in it
// alone. Trials that a search chose differ in other knobs too, so the dots show what was seen and only the
// pairs show an effect.
const knobView = {
  metric: null
};

// {ratio, change, pairs} of each value against the default's (the first one, where the default was not measured).
const baseOf = (knob) => Math.max(0, trialNumbered(0) ? trialNumbered(0).choices[knob.index] : 0);

function pairedChanges(knob, metric) {
  const groups = new Map();
  for (const trial of okTrials) {
    const value = valueOf(trial, metric);
    if (!value || trial.choices[knob.index] < 0) continue;
    const key = keyWithout(trial, knob.index);
    if (!groups.has(key)) groups.set(key, new Map());
    groups.get(key).set(trial.choices[knob.index], value.value);
  }
  const base = baseOf(knob);
  return knob.values.map((_, i) => {
    const pairs = i === base ? [] : [...groups.values()].filter((group) => group.get(i) > 0 && group.get(base) > 0);
    if (pairs.length === 0) return null;
    return {
      ratio: median(pairs.map((group) => group.get(i) / group.get(base))),
      change: median(pairs.map((group) => group.get(i) - group.get(base))),
      pairs: pairs.length
    };
  });
}

const changeText = (change) =>
    (change ? `${change.ratio >= 1 ? "+" : "\u2212"}${
                  Math.abs((change.ratio - 1) * 100).toFixed(Math.abs(change.ratio - 1) < 0.1 ? 1 : 0)} %` :
              "");

function knobChart(knob, metric, width) {
  const trials = okTrials.filter((trial) => trial.choices[knob.index] >= 0 && valueOf(trial, metric));
  const values = trials.map((trial) => valueOf(trial, metric).value);
  const left = 60;
  const step = (width - left - 14) / knob.values.length;
  const place = (i) => left + (i + 0.5) * step;
  const stride = Math.ceil(knob.values.length / Math.max(1, Math.floor((width - left) / 52)));
  const ticks =
      knob.values
          .map(
              (value, i) => ({at: place(i), text: value.length > 11 ? value.slice(0, 10) + "\u2026" : value}))
          .filter((_, i) => i % stride === 0);
  const height = 230;
  const {svg, sy} = plot({
    width,
    height,
    left,
    bottom: 62,
    x: {label: knob.name, scale: {place, ticks}},
    y: {label: heading(metric), values, log: suitsLog(metric)},
    label: `${heading(metric)} by ${knob.name}`
  });
  const changes = pairedChanges(knob, metric);
  knob.values.forEach((value, i) => {
    const seen = trials.filter((trial) => trial.choices[knob.index] === i);
    if (seen.length === 0) return;
    // One path for all dots of a value; they are spread sideways by their number, the same way every time.
    const dots =
        seen.map(
                (trial) => `M${
                    (place(i) + (((trial.trial * 0.618) % 1) - 0.5) * Math.min(24, step * 0.6)).toFixed(1)} ${
                    sy.place(valueOf(trial, metric).value).toFixed(1)}h0`)
            .join("");
    svg.append(draw("path", {
      d: dots,
      stroke: "var(--c0)",
      "stroke-width": 4.5,
      "stroke-linecap": "round",
      opacity: 0.5,
      fill: "none"
    }));
    const middle = sy.place(median(seen.map((trial) => valueOf(trial, metric).value)));
    svg.append(draw("line", {
      x1: place(i) - Math.min(16, step * 0.4),
      x2: place(i) + Math.min(16, step * 0.4),
      y1: middle,
      y2: middle,
      stroke: "var(--ink)",
      "stroke-width": 2
    }));
    if (changes[i] && step > 42)
      svg.append(draw(
          "text", {class: "soft", x: place(i), y: height - 30, "text-anchor": "middle", "font-size": 11},
          changeText(changes[i])));
  });
  return svg;
}

function drawKnobs() {
  const host = byId("knob-chart").querySelector(".chart");
  host.classList.add("grid");
  const metric = knobView.metric;
  const columns = Math.max(1, Math.floor((host.clientWidth + 16) / 288));
  const width = Math.max(260, (host.clientWidth - 16 * (columns - 1)) / columns);
  host.replaceChildren(...variedKnobs.map((knob) => make("div", {}, knobChart(knob, metric, width))));
  numbersBehind(
      "knob-chart", `${heading(metric)} by the value of each knob`,
      [
        "knob", "value", "trials", "median", "lowest", "highest",
        "change against the default's value, in pairs", "the same in the metric", "pairs"
      ],
      () => variedKnobs.flatMap((knob) => {
        const changes = pairedChanges(knob, metric);
        return knob.values.map((value, i) => {
          const seen = okTrials.filter((trial) => trial.choices[knob.index] === i)
                           .map((trial) => valueOf(trial, metric))
                           .filter(Boolean)
                           .map((each) => each.value);
          return [
            knob.name, value, seen.length, seen.length ? digits(median(seen)) : "-",
            seen.length ? digits(Math.min(...seen)) : "-", seen.length ? digits(Math.max(...seen)) : "-",
            changes[i] ? changeText(changes[i]) : "-",
            changes[i] ? `${changes[i].change < 0 ? "\u2212" : "+"}${digits(Math.abs(changes[i].change))}` : "-",
            changes[i] ? changes[i].pairs : 0
          ];
        });
      }));
}

function startKnobs() {
  if (okTrials.length === 0 || variedKnobs.length === 0) {
    sayInstead("knob-chart", okTrials.length ? "No knob varied in this run." : "No trial was measured.");
    return;
  }
  knobView.metric = metricNamed(data.objectives[0]);
  const options = metrics.filter((metric) => okTrials.some((trial) => valueOf(trial, metric)))
                      .map((metric) => [metric.name, heading(metric)]);
  byId("knob-chart")
      .querySelector(".controls")
      .append(choice("metric", options, knobView.metric.name, (name) => {
        knobView.metric = metricNamed(name);
        drawKnobs();
      }));
  keepDrawn(byId("knob-chart").querySelector(".chart"), drawKnobs);
}
