// A cloud of points that can be hovered, reached by the keyboard and picked. One point at a time is in the
// tab order; arrow keys go to the next one along x (left, right) or y (up, down), Enter or the space bar
// picks it. points: {x, y, role, label, tip, bars: {x: [low, high], y: [low, high]}, pick()}; pixels.
function cloud(host, svg, points, isPicked) {
  const tip = make("div", {class: "tip", hidden: true, "aria-hidden": "true"});
  // Rings around the picked point and the one in reach; one of each, since two thousand would cost time.
  const ring = (css) => draw("circle", {class: css, r: 11, visibility: "hidden"});
  const moveRing = (circle, point) => {
    circle.setAttribute("cx", point.x);
    circle.setAttribute("cy", point.y);
    circle.setAttribute("visibility", "visible");
  };
  const near = ring("near");
  const chosen = ring("chosen");
  const bars = draw("g", {});
  const nodes = points.map((point) => {
    const bar = (x1, y1, x2, y2) => bars.append(draw("line", {class: "bar " + point.role, x1, y1, x2, y2}));
    if (point.bars && point.bars.x) bar(point.bars.x[0], point.y, point.bars.x[1], point.y);
    if (point.bars && point.bars.y) bar(point.x, point.bars.y[0], point.x, point.bars.y[1]);
    return fill(
        mark(point.role, point.x, point.y), {
          class: "point " + point.role,
          role: "button",
          tabindex: -1,
          "aria-label": point.label,
          "aria-pressed": String(isPicked(point))
        },
        []);
  });
  svg.append(bars, ...nodes, near, chosen);
  const at = (event) => points[nodes.indexOf(event.target)];
  svg.addEventListener("focusin", (event) => {
    if (at(event)) show(at(event));
  });
  svg.addEventListener("focusout", hide);
  svg.addEventListener("keydown", (event) => {
    if (at(event)) press(event, at(event));
  });
  const order = {
    x: [...points].sort((a, b) => a.x - b.x || a.y - b.y),
    y: [...points].sort((a, b) => a.y - b.y || a.x - b.x)
  };
  let current = Math.max(0, points.findIndex(isPicked));
  if (nodes.length) nodes[current].setAttribute("tabindex", 0);
  if (points.some(isPicked)) moveRing(chosen, points.find(isPicked));

  function show(point) {
    moveRing(near, point);
    tip.textContent = point.tip;
    tip.hidden = false;
    const scale = svg.clientWidth / svg.viewBox.baseVal.width || 1;
    const left = Math.min(point.x * scale + 14, Math.max(0, host.clientWidth - tip.offsetWidth - 4));
    tip.style.left = left + "px";
    tip.style.top = Math.max(0, point.y * scale - tip.offsetHeight - 12) + "px";
  }
  function hide() {
    tip.hidden = true;
    near.setAttribute("visibility", "hidden");
  }
  function press(event, point) {
    const way = {ArrowRight: ["x", 1], ArrowLeft: ["x", -1], ArrowDown: ["y", 1], ArrowUp: [
                   "y", -1
                 ]}[event.key];
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      point.pick();
      return;
    }
    if (event.key === "Escape") {
      hide();
      return;
    }
    if (!way) return;
    event.preventDefault();
    const list = order[way[0]];
    const next = list[list.indexOf(point) + way[1]];
    if (!next) return;
    nodes[current].setAttribute("tabindex", -1);
    current = points.indexOf(next);
    nodes[current].setAttribute("tabindex", 0);
    nodes[current].focus();
  }
  // The nearest point within reach: small marks need no steady hand.
  function nearest(event) {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale;
    const y = (event.clientY - box.top) * scale;
    let best = null;
    let reach = 16 ** 2;
    for (const point of points) {
      const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
      if (distance < reach) {
        reach = distance;
        best = point;
      }
    }
    return best;
  }
  svg.addEventListener("pointermove", (event) => {
    const point = nearest(event);
    point ? show(point) : hide();
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("click", (event) => {
    const point = nearest(event);
    if (point) point.pick();
  });
  host.replaceChildren(svg, tip);
}
