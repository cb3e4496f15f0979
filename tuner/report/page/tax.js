// Where a token's time goes: parts in milliseconds per token, stacked, for the configurations somebody would
// ask about. A metric tax_NAME_ms is a part; a run without them says that it was not measured. A part below 0
// (unexplained may be) is in the table only. All parts add up to tax_token_ms, the token's time in the recorded
// runs, and not to tpot_ms, which is of others: the table shows both.
const taxOrder =
    ["communication", "expert loading", "synchronisation", "launch gaps", "router", "compute", "unexplained"];
const taxName = (metric) => metric.name.replace(/^tax_/, "").replace(/_ms$/, "").replaceAll("_", " ");
const taxParts = metrics.filter((metric) => /^tax_.+_ms$/.test(metric.name) && metric.name !== "tax_token_ms")
                     .sort((a, b) => taxOrder.indexOf(taxName(a)) - taxOrder.indexOf(taxName(b)));

const tokenTimes = metrics.filter((metric) => ["tax_token_ms", "tpot_ms"].includes(metric.name));

function taxTrials() {
  const has = (trial) => trial && taxParts.some((metric) => valueOf(trial, metric));
  const wanted = [
    picked, trialNumbered(data.recommended), trialNumbered(0), trialNumbered(data.runner_up),
    ...okTrials.filter((trial) => trial.front)
  ];
  return [...new Set(wanted.filter(has))].slice(0, 16);
}

function drawTax() {
  const host = byId("tax-chart").querySelector(".chart");
  const trials = taxTrials();
  const width = Math.max(300, host.clientWidth);
  const row = 30;
  const left = Math.min(190, width * 0.3);
  const totals = trials.map(
      (trial) => taxParts.reduce(
          (sum, metric) => sum + Math.max(0, (valueOf(trial, metric) || {value: 0}).value), 0));
  const place = (i) => 12 + i * row;
  const height = 12 + trials.length * row + 46;
  const words = (trial) => {
    const text = `${trial.trial}: ${changes(trial)}`;
    const room = Math.floor(left / 6.6);
    return text.length > room ? text.slice(0, room - 1) + "\u2026" : text;
  };
  const {svg, sx} = plot({
    width,
    height,
    left,
    x: {label: "ms per token", values: [0, ...totals]},
    label: "Parts of a token's time, per trial",
    y: {
      label: "",
      scale: {place: () => 0, ticks: trials.map((trial, i) => ({at: place(i) + row / 2, text: words(trial)}))}
    }
  });
  trials.forEach((trial, i) => {
    let sum = 0;
    taxParts.forEach((metric, part) => {
      const value = valueOf(trial, metric);
      if (!value || !(value.value > 0)) return;
      const x = sx.place(sum);
      sum += value.value;
      svg.append(draw(
          "rect", {
            x,
            y: place(i) + 5,
            width: Math.max(0, sx.place(sum) - x),
            height: row - 10,
            fill: `var(--c${part % 8})`,
            stroke: "var(--paper)"
          },
          draw("title", {}, `trial ${trial.trial}, ${taxName(metric)}: ${withInterval(value)} ms`)));
    });
  });
  host.replaceChildren(svg);
  numbersBehind(
      "tax-chart", "Milliseconds per token, by part",
      ["trial", "differs from the default in", ...taxParts.map(taxName), "sum", ...tokenTimes.map((metric) => metric.name)],
      () => taxTrials().map(
          (trial) =>
              [trial.trial, changes(trial), ...taxParts.map((metric) => withInterval(valueOf(trial, metric))),
               digits(taxParts.reduce(
                   (sum, metric) => sum + (valueOf(trial, metric) || {value: 0}).value, 0)),
               ...tokenTimes.map((metric) => withInterval(valueOf(trial, metric)))]));
}

// Why the parts of a configuration are not shown: recording it would have described another run than the plain one.
function sayNotRecorded() {
  const refused = data.trials.filter((trial) => trial.not_recorded !== undefined);
  if (refused.length === 0) return;
  byId("tax-chart").append(make(
      "ul", {class: "not-recorded"},
      ...refused.map((trial) => make(
          "li", {}, `Trial ${trial.trial} (${changes(trial)}) is not shown: ${data.reasons[trial.not_recorded]}`))));
}

function startTax() {
  sayNotRecorded();
  if (taxParts.length === 0 || taxTrials().length === 0) {
    sayInstead("tax-chart", "Not measured in this run." + (launched ? " One configuration's is shown by:" : ""));
    if (launched) byId("tax-chart").querySelector(".chart").append(commandBlock(measureCommand(launched, "tax")));
    return;
  }
  byId("tax-chart")
      .querySelector(".legend")
      .replaceChildren(...taxParts.map(
          (metric, i) => make(
              "span", {}, make("span", {class: "swatch", style: `background:var(--c${i % 8})`}),
              taxName(metric))));
  onPick(keepDrawn(byId("tax-chart").querySelector(".chart"), drawTax).redraw);
}
