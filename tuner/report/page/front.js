// The Pareto front over any two metrics, with filters.
const frontView = {
  x: null,
  y: null,
  logX: false,
  logY: false,
  onlyFront: false,
  onlyGate: false,
  knobs: new Map()
};

// Logarithmic where positive values span more than a factor of eight. Decibels are logarithms already.
function suitsLog(metric) {
  if (metric.unit === "dB") return false;
  const values = okTrials.map((trial) => valueOf(trial, metric))
                     .filter((each) => each && each.value > 0)
                     .map((each) => each.value);
  return values.length > 2 && Math.max(...values) / Math.min(...values) > 8;
}

function shownTrials() {
  return okTrials.filter(
      (trial) => valueOf(trial, frontView.x) && valueOf(trial, frontView.y) &&
          (!frontView.onlyFront || trial.front || trial.trial === 0) &&
          (!frontView.onlyGate || trial.gate !== "missed") &&
          [...frontView.knobs].every(([index, value]) => trial.configuration[index] === value));
}

function frontControls(redraw) {
  const names = metrics.map((metric) => [metric.name, heading(metric)]);
  const axis = (label, key, logKey) => choice(label, names, frontView[key].name, (name) => {
    frontView[key] = metricNamed(name);
    frontView[logKey] = suitsLog(frontView[key]);
    frontControls(redraw);
    redraw();
  });
  const flag = (label, key) => tick(label, frontView[key], (on) => {
    frontView[key] = on;
    redraw();
  });
  const filters = variedKnobs.map(
      (knob) => choice(
          knob.name, [["", "any"], ...knob.values.map((value) => ["=" + value, value])],
          frontView.knobs.has(knob.index) ? "=" + frontView.knobs.get(knob.index) : "", (value) => {
            value === "" ? frontView.knobs.delete(knob.index) :
                           frontView.knobs.set(knob.index, value.slice(1));
            redraw();
          }));
  byId("front-chart")
      .querySelector(".controls")
      .replaceChildren(
          axis("across", "x", "logX"), flag("logarithmic", "logX"), axis("up", "y", "logY"),
          flag("logarithmic", "logY"), flag("front only", "onlyFront"),
          flag(`hide what misses the ${data.gate} gate`, "onlyGate"),
          ...(filters.length > 6 ?
                  [make(
                      "details", {open: frontView.knobs.size > 0}, make("summary", {}, "Filter by knob"),
                      make("div", {class: "controls"}, ...filters))] :
                  filters),
          make("span", {id: "front-count", role: "status"}));
}

// Steps through what nothing else beats in these two metrics.
function staircase(trials, sx, sy) {
  const turn = (metric) => (metric.better === "larger" ? -1 : 1);
  if (frontView.x.better === "neither" || frontView.y.better === "neither" || frontView.x === frontView.y)
    return null;
  const points = trials.filter((trial) => trial.gate !== "missed")
                     .map(
                         (trial) =>
                             [valueOf(trial, frontView.x).value * turn(frontView.x),
                              valueOf(trial, frontView.y).value * turn(frontView.y)])
                     .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let best = Infinity;
  let path = "";
  for (const [x, y] of points) {
    if (y >= best) continue;
    best = y;
    const px = sx.place(x * turn(frontView.x)).toFixed(1);
    const py = sy.place(y * turn(frontView.y)).toFixed(1);
    path += path ? `H${px}V${py}` : `M${px} ${py}`;
  }
  return path ?
      draw(
          "path",
          {d: path, fill: "none", stroke: "var(--front)", "stroke-width": 1.2, "stroke-dasharray": "5 3"}) :
      null;
}

function drawFront() {
  const host = byId("front-chart").querySelector(".chart");
  const trials = shownTrials();
  byId("front-count").textContent = `${trials.length} of ${okTrials.length} shown`;
  if (trials.length === 0) {
    host.replaceChildren(make("p", {class: "note"}, "No trial passes these filters."));
    return;
  }
  const width = Math.max(300, host.clientWidth);
  const height = Math.max(300, Math.min(480, width * 0.6));
  const intervals = (metric) => trials.flatMap((trial) => {
    const value = valueOf(trial, metric);
    return roleOf(trial) === "missed" || roleOf(trial) === "other" || value.low === null ?
        [value.value] :
        [value.value, value.low, value.high];
  });
  const axis = (metric, log) => ({
    label: heading(metric) + (metric.better === "neither" ? "" : `, ${metric.better} is better`),
    log,
    values: intervals(metric)
  });
  const {svg, sx, sy} = plot({
    width,
    height,
    x: axis(frontView.x, frontView.logX),
    y: axis(frontView.y, frontView.logY),
    label: `${heading(frontView.y)} against ${heading(frontView.x)}, ${trials.length} trials`
  });
  const steps = staircase(trials, sx, sy);
  if (steps) svg.append(steps);
  const points =
      [...trials].sort((a, b) => drawOrder.indexOf(roleOf(a)) - drawOrder.indexOf(roleOf(b))).map((trial) => {
        const x = valueOf(trial, frontView.x);
        const y = valueOf(trial, frontView.y);
        const role = roleOf(trial);
        const bar = (scale, value) =>
            (value.low === null ? null : [scale.place(value.low), scale.place(value.high)]);
        const hasBars = role !== "missed" && role !== "other";
        const tip = `trial ${trial.trial}, ${roleText(trial)}\n${changes(trial)}\n${frontView.x.name} ${
            withInterval(x)} ${frontView.x.unit}\n${frontView.y.name} ${withInterval(y)} ${frontView.y.unit}`;
        return {
          trial,
          role,
          x: sx.place(x.value),
          y: sy.place(y.value),
          tip,
          label: tip.replaceAll("\n", "; "),
          bars: hasBars ? {x: bar(sx, x), y: bar(sy, y)} : null,
          pick: () => pick(trial)
        };
      });
  cloud(host, svg, points, (point) => point.trial === picked);
  numbersBehind(
      "front-chart", "Every trial that is shown",
      ["trial", "role", "differs from the default in", heading(frontView.x), heading(frontView.y)],
      () => shownTrials().map(
          (trial) =>
              [trial.trial, roleText(trial), changes(trial), withInterval(valueOf(trial, frontView.x)),
               withInterval(valueOf(trial, frontView.y))]));
}

function startFront() {
  if (okTrials.length === 0) {
    sayInstead(
        "front-chart", "No trial was measured, so there is nothing to draw. Failures are listed below.");
    return;
  }
  frontView.x = metricNamed(data.objectives[0]);
  frontView.y =
      metricNamed(data.objectives[1]) || metrics.find((metric) => metric !== frontView.x) || frontView.x;
  frontView.logX = suitsLog(frontView.x);
  frontView.logY = suitsLog(frontView.y);
  frontControls(drawFront);
  const roles = drawOrder.filter((role) => okTrials.some((trial) => roleOf(trial) === role)).reverse();
  legend(byId("front-chart").querySelector(".legend"), roles.map((role) => [role, roleWords[role]]));
  const chart = keepDrawn(byId("front-chart").querySelector(".chart"), drawFront, true);
  // The focus stays where it was: picking by keyboard draws the chart anew.
  onPick(() => {
    const focused = document.activeElement && document.activeElement.closest &&
        document.activeElement.closest("#front-chart .point");
    chart.redraw();
    if (focused) {
      const again = byId("front-chart").querySelector('.point[aria-pressed="true"]');
      if (again) again.focus();
    }
  });
}
