// Predicted against measured: where one configuration has both for the same metric.
function predictionPairs() {
  const seen = new Map();
  for (const trial of okTrials) {
    for (const metric of metrics) {
      const value = valueOf(trial, metric);
      if (!value || !(value.value > 0)) continue;
      const key = metric.name + " " + trial.choices.join(" ");
      if (!seen.has(key)) seen.set(key, {metric, trial});
      seen.get(key)[value.origin === "measured" ? "measured" : "predicted"] = value;
    }
  }
  return [...seen.values()].filter((pair) => pair.measured && pair.predicted);
}

function startPredicted() {
  const pairs = predictionPairs();
  if (pairs.length === 0) {
    const foretold = okTrials.some((trial) => metrics.some((metric) => {
      const value = valueOf(trial, metric);
      return value && value.origin !== "measured";
    }));
    sayInstead(
        "predicted-chart",
        foretold ?
            "Some numbers of this run are predicted, as marked beside them, but none of them was also measured." :
            "Nothing in this run is predicted: every number was measured.");
    return;
  }
  const names = [...new Set(pairs.map((pair) => pair.metric.name))];
  const host = byId("predicted-chart").querySelector(".chart");
  keepDrawn(host, () => {
    host.classList.add("pair");
    const width = Math.max(280, Math.min(480, host.clientWidth));
    host.replaceChildren(...names.map((name) => {
      const own = pairs.filter((pair) => pair.metric.name === name);
      const values = own.flatMap((pair) => [pair.predicted.value, pair.measured.value]);
      const log = Math.max(...values) / Math.min(...values) > 30;
      const {svg, sx, sy} = plot({
        width,
        height: 300,
        x: {label: "predicted " + heading(own[0].metric), values, log},
        y: {label: "measured", values, log},
        label: "measured against predicted " + name
      });
      const ends = [Math.min(...values), Math.max(...values)];
      svg.append(draw("line", {
        x1: sx.place(ends[0]),
        y1: sy.place(ends[0]),
        x2: sx.place(ends[1]),
        y2: sy.place(ends[1]),
        stroke: "var(--faint)",
        "stroke-dasharray": "4 3"
      }));
      for (const pair of own)
        svg.append(draw(
            "g", {class: "front"},
            mark("front", sx.place(pair.predicted.value), sy.place(pair.measured.value)),
            draw("title", {}, `trial ${pair.trial.trial}`)));
      return make("div", {}, svg);
    }));
  });
  numbersBehind(
      "predicted-chart", "Predicted and measured", ["metric", "trial", "predicted", "measured", "error"],
      () => pairs.map(
          (pair) =>
              [heading(pair.metric), pair.trial.trial, withInterval(pair.predicted),
               withInterval(pair.measured),
               ((pair.predicted.value / pair.measured.value - 1) * 100).toFixed(1) + " %"]));
}
