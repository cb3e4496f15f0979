// The search over time: every trial's value of the first objective, and what share of the reachable
// hypervolume the front covers after it.
function drawHistory() {
  const host = byId("history-chart").querySelector(".chart");
  const width = Math.max(300, host.clientWidth);
  const metric = metricNamed(data.objectives[0]);
  const numbers = [0, ...data.trials.map((trial) => trial.trial)];
  const values = okTrials.map((trial) => valueOf(trial, metric)).filter(Boolean).map((each) => each.value);
  const bottom = Math.min(...values);
  const above = plot({
    width,
    height: 240,
    x: {label: "trial", values: numbers},
    y: {label: heading(metric), values, log: suitsLog(metric)},
    label: `${heading(metric)} of each trial in order`
  });
  for (const trial of data.trials) {
    const value = valueOf(trial, metric);
    const role = roleOf(trial);
    above.svg.append(fill(
        mark(
            role, above.sx.place(trial.trial),
            above.sy.place(value ? value.value : bottom) + (value ? 0 : 10)),
        {class: role}, []));
  }
  const below = plot({
    width,
    height: 170,
    x: {label: "trial", values: numbers},
    y: {label: "share of hypervolume", values: [0, ...data.hypervolume]},
    label: "Share of hypervolume after each trial"
  });
  let path = "";
  data.hypervolume.forEach((share, i) => {
    const x = below.sx.place(data.trials[i].trial).toFixed(1);
    path += path ? `H${x}V${below.sy.place(share).toFixed(1)}` : `M${x} ${below.sy.place(share).toFixed(1)}`;
  });
  below.svg.append(draw("path", {d: path, fill: "none", stroke: "var(--c0)", "stroke-width": 2}));
  host.replaceChildren(above.svg, below.svg);
  numbersBehind(
      "history-chart", "Trials in order",
      [
        "trial", "started", "seconds", "outcome", heading(metric), "share of hypervolume",
        "differs from the default in"
      ],
      () => data.trials.map(
          (trial, i) =>
              [trial.trial, trial.started, digits(trial.seconds), trial.ok ? "ok" : trial.outcome,
               withInterval(valueOf(trial, metric)),
               data.hypervolume.length ? digits(data.hypervolume[i]) : "-", changes(trial)]));
}

function startHistory() {
  if (okTrials.length === 0 || !okTrials.some((trial) => valueOf(trial, metricNamed(data.objectives[0])))) {
    sayInstead("history-chart", "No trial was measured.");
    return;
  }
  const roles = [...drawOrder, "failed"]
                    .filter((role) => data.trials.some((trial) => roleOf(trial) === role))
                    .reverse();
  legend(byId("history-chart").querySelector(".legend"), roles.map((role) => [role, roleWords[role]]));
  keepDrawn(byId("history-chart").querySelector(".chart"), drawHistory);
}
