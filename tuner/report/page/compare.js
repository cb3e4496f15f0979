// The chart of compare.html: dollars per million tokens against the time per token, of what keeps the service
// level.
const shapes = ["front", "default", "recommended", "missed", "failed", "other"];

function moneyPoints() {
  const tpot = (point) => point.metrics.tpot_ms;
  return data.boxes.flatMap(
      (box, i) =>
          (box.fits ? [...box.front.map((point) => [point, false]), [box.recommended, true]] : [])
              .filter(([point]) => point.usd_per_mtok && tpot(point) && point.keeps_slo !== false)
              .map(
                  ([point, isRecommended]) =>
                      ({box, index: i, isRecommended, tpot: tpot(point), usd: point.usd_per_mtok, point})));
}

const said = (value) => digits(value.value) +
    (value.low === undefined || value.low === null ? "" :
                                                     ` (${digits(value.low)} to ${digits(value.high)})`) +
    (value.origin === "measured" ? "" : " " + value.origin);

const shortened = (text) => (text.length > 44 ? text.slice(0, 43) + "\u2026" : text);

function drawMoney() {
  const host = byId("money-chart").querySelector(".chart");
  const points = moneyPoints();
  const width = Math.max(300, host.clientWidth);
  const spread = (values) => Math.max(...values) / Math.min(...values) > 8;
  const xs = points.map((each) => each.tpot.value);
  const ys = points.map((each) => each.usd.value);
  const limit = data.slo && data.slo.metric.startsWith("tpot") ? data.slo.limit_ms : null;
  const {svg, sx, sy} = plot({
    width,
    height: Math.max(300, Math.min(460, width * 0.55)),
    label: "US dollars per million tokens against milliseconds per token",
    x: {label: "tpot_ms (ms per token), smaller is better", values: xs, log: spread(xs)},
    y: {label: "USD per million tokens, rented", values: ys, log: spread(ys)}
  });
  if (limit !== null && limit <= Math.max(...xs))
    svg.append(draw("line", {
      x1: sx.place(limit),
      x2: sx.place(limit),
      y1: 10,
      y2: sy.place(Math.min(...ys)),
      stroke: "var(--chosen)",
      "stroke-dasharray": "5 3"
    }));
  for (const each of points.filter((one) => one.isRecommended)) {
    const x = sx.place(each.tpot.value);
    const isLeft = x < width / 2;  // the name goes where there is room
    svg.append(draw(
        "text",
        {
          x: x + (isLeft ? 12 : -12),
          y: sy.place(each.usd.value) - 8,
          class: "soft",
          "text-anchor": isLeft ? "start" : "end"
        },
        shortened(`${each.box.heading}, ${each.box.model}`)));
  }
  cloud(
      host, svg, points.map((each) => {
        const tip = `${each.box.heading}, ${each.box.model}${each.isRecommended ? ", recommended" : ""}\n${
            Object.entries(each.point.configuration)
                .map(([name, value]) => `${name} ${value}`)
                .join(", ")}\n${said(each.tpot)} ms per token\n${said(each.usd)} USD per million tokens`;
        const bar = (scale, value) =>
            (value.low === undefined || value.low === null ?
                 null :
                 [scale.place(value.low), scale.place(value.high)]);
        return {
          role: each.isRecommended ? shapes[each.index % shapes.length] : "other",
          x: sx.place(each.tpot.value),
          y: sy.place(each.usd.value),
          tip,
          label: tip.replaceAll("\n", "; "),
          bars: each.isRecommended ? {x: bar(sx, each.tpot), y: bar(sy, each.usd)} : null,
          pick: () => {}
        };
      }),
      () => false);
  numbersBehind(
      "money-chart", "What is drawn",
      ["box", "model", "configuration", "ms per token", "USD per million tokens"],
      () => points.map(
          (each) =>
              [each.box.heading, each.box.model,
               Object.entries(each.point.configuration).map(([name, value]) => `${name}=${value}`).join(" "),
               said(each.tpot), said(each.usd)]));
}

themeButton();
if (moneyPoints().length === 0)
  sayInstead(
      "money-chart",
      "Nothing to draw: no box has a price by the hour and keeps the service level. --prices FILE brings prices.");
else
  keepDrawn(byId("money-chart").querySelector(".chart"), drawMoney, true);
