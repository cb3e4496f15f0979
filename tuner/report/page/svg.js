// Axes and marks. A scale maps values to pixels; zeros on a logarithmic one have a place of their own at its
// low end.
function tickText(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return Number(value.toPrecision(2)).toExponential();
  return String(Number(value.toPrecision(4)));
}

function tickSteps(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((each) => each * power >= raw * 0.999) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

function linearScale(values, from, to, count) {
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (!(high > low)) {
    const pad = Math.abs(low) * 0.1 || 1;
    low -= pad;
    high += pad;
  }
  const pad = (high - low) * 0.04;
  low = low >= 0 && low - pad < 0 ? 0 : low - pad;
  high += pad;
  const place = (value) => from + ((value - low) / (high - low)) * (to - from);
  return {
    place,
    ticks: tickSteps(low, high, count).map((value) => ({at: place(value), text: tickText(value)}))
  };
}

// Six decades at most: what lies below them, zero above all, is drawn at the low end, which says so.
function logScale(values, from, to, count) {
  const positive = values.filter((value) => value > 0);
  if (positive.length === 0) return linearScale(values, from, to, count);
  let high = Math.log10(Math.max(...positive));
  const floor = 10 ** (high - 6);
  const isBelow = (value) => !(value >= floor);
  let low = Math.log10(Math.min(...positive.filter((value) => !isBelow(value))));
  const pad = Math.max(0.03, (high - low) * 0.04);
  low -= pad;
  high += pad;
  const start = values.some(isBelow) ? from + (to - from) * 0.07 : from;
  const place = (value) =>
      (isBelow(value) ? from : start + Math.max(0, (Math.log10(value) - low) / (high - low)) * (to - start));
  const ticks = [];
  if (start !== from)
    ticks.push({
      at: from,
      text: values.some((value) => value > 0 && isBelow(value)) ?
          "<" + Number(floor.toPrecision(1)).toExponential() :
          "0"
    });
  const decades = high - low;
  const factors = decades > 4 ? [1] :
      decades > 1.6           ? [1, 3] :
      decades > 0.7           ? [1, 2, 5] :
                                [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
  for (let power = Math.floor(low); power <= high; ++power)
    for (const factor of factors) {
      const value = factor * 10 ** power;
      const at = Math.log10(value);
      if (at >= low && at <= high) ticks.push({at: place(value), text: tickText(value)});
    }
  return {place, ticks};
}

const scaleOf = (isLog, values, from, to, count) => (isLog ? logScale : linearScale)(values, from, to, count);

// Leaves out labels that would run into their neighbour.
function spaced(ticks, room) {
  const kept = [];
  for (const each of [...ticks].sort((a, b) => a.at - b.at))
    if (kept.length === 0 || each.at - kept[kept.length - 1].at >= room(each)) kept.push(each);
  return kept;
}

// An empty chart with both axes. x and y: {label, values, log, scale}; scale: a ready one instead.
function plot({width, height, x, y, label, left = 62, bottom = 46, top = 10, right = 14}) {
  const sx =
      x.scale || scaleOf(x.log, x.values, left, width - right, Math.max(2, Math.round((width - left) / 110)));
  const sy = y.scale || scaleOf(y.log, y.values, height - bottom, top, Math.max(2, Math.round(height / 60)));
  const svg =
      draw("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label});
  for (const each of spaced(sy.ticks, () => 14))
    svg.append(
        draw("line", {class: "gridline", x1: left, x2: width - right, y1: each.at, y2: each.at}),
        draw("text", {class: "soft", x: left - 6, y: each.at + 4, "text-anchor": "end"}, each.text));
  for (const each of spaced(sx.ticks, (one) => 16 + one.text.length * 6.5))
    svg.append(
        draw("line", {class: "gridline", x1: each.at, x2: each.at, y1: top, y2: height - bottom}),
        draw(
            "text", {class: "soft", x: each.at, y: height - bottom + 16, "text-anchor": "middle"},
            each.text));
  svg.append(
      draw("line", {class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}),
      draw("line", {class: "axis", x1: left, x2: left, y1: top, y2: height - bottom}),
      draw("text", {x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle"}, x.label),
      draw(
          "text",
          {transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle"},
          y.label));
  return {svg, sx, sy};
}

// What a configuration is in the run, as a shape too.
function mark(role, x, y) {
  const at = (path, attributes) => draw("path", {
    d: path,
    transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
    fill: "currentColor",
    ...attributes
  });
  switch (role) {
    case "recommended":
      return at("M0-9 2.6-3 9-2.6 4 1.6 5.7 8 0 4.4-5.7 8-4 1.6-9-2.6-2.6-3Z");
    case "default":
      return at("M-5.5-5.5H5.5V5.5H-5.5Z");
    case "front":
      return at("M-5 0A5 5 0 1 0 5 0A5 5 0 1 0-5 0");
    case "missed":
      return at(
          "M-3.5-3.5 3.5 3.5M-3.5 3.5 3.5-3.5", {fill: "none", stroke: "currentColor", "stroke-width": 1.4});
    case "failed":
      return at("M0-4 4 3.5H-4Z", {fill: "none", stroke: "currentColor", "stroke-width": 1.2});
    default:
      return at("M-3 0A3 3 0 1 0 3 0A3 3 0 1 0-3 0");
  }
}

function legend(host, entries) {
  host.replaceChildren(...entries.map(
      ([role, text]) => make(
          "span", {class: role},
          draw("svg", {viewBox: "-10 -10 20 20", "aria-hidden": true}, mark(role, 0, 0)),
          make("span", {style: "color:var(--ink)"}, text))));
}
