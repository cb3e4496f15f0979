// Hit rate and step time against the size of the expert cache, where a run varied it.
const cacheKnob = variedKnobs.find((knob) => knob.is_cache_size);
const cachePanels = ["cache_hit", "tpot_ms"].map(metricNamed).filter(Boolean);

const cacheShare = (trial) => {
  const share = Number(trial.configuration[cacheKnob.index]);
  return Number.isFinite(share) ? share : null;
};

// The picked trial with other cache sizes; where there is only one, the largest such family of the run.
function cacheFamily(trials) {
  const families = new Map();
  for (const trial of trials) {
    const key = keyWithout(trial, cacheKnob.index);
    if (!families.has(key)) families.set(key, []);
    families.get(key).push(trial);
  }
  const own = picked && families.get(keyWithout(picked, cacheKnob.index));
  if (own && own.length > 1)
    return {family: own, words: "The line: the picked configuration with other cache sizes."};
  const largest = [...families.values()].sort((a, b) => b.length - a.length)[0];
  const others = data.knobs
                     .flatMap(
                         (knob, i) =>
                             (i === cacheKnob.index || data.knobs[i].values.length < 2 ?
                                  [] :
                                  [`${knob.name} ${largest[0].configuration[i]}`]))
                     .join(", ");
  return largest.length > 1 ?
      {
        family: largest,
        words: `The picked configuration was measured with one cache size only; the line joins ${others}.`
      } :
      {family: [], words: "No configuration was measured with more than one cache size."};
}

function drawCache() {
  const host = byId("cache-chart").querySelector(".chart");
  host.classList.toggle("pair", cachePanels.length > 1);
  const trials =
      okTrials.filter((trial) => trial.configuration[cacheKnob.index] !== null && cacheShare(trial) !== null);
  const {family, words} = cacheFamily(trials);
  const columns = host.clientWidth >= 664 && cachePanels.length > 1 ? 2 : 1;
  const width = Math.max(280, (host.clientWidth - 24 * (columns - 1)) / columns);
  host.replaceChildren(
      ...cachePanels.map((metric) => {
        const seen = trials.filter((trial) => valueOf(trial, metric));
        const {svg, sx, sy} = plot({
          width,
          height: 260,
          x: {label: "share of experts in memory", values: [0, ...seen.map(cacheShare)]},
          y: {
            label: heading(metric),
            values: seen.map((trial) => valueOf(trial, metric).value),
            log: suitsLog(metric)
          },
          label: `${heading(metric)} against cache size`
        });
        for (const trial of seen)
          svg.append(draw("circle", {
            cx: sx.place(cacheShare(trial)),
            cy: sy.place(valueOf(trial, metric).value),
            r: 3,
            fill: "var(--other)",
            opacity: 0.55
          }));
        const line =
            family.filter((trial) => valueOf(trial, metric)).sort((a, b) => cacheShare(a) - cacheShare(b));
        const at = (trial) =>
            `${sx.place(cacheShare(trial)).toFixed(1)} ${sy.place(valueOf(trial, metric).value).toFixed(1)}`;
        if (line.length > 1)
          svg.append(draw(
              "path",
              {d: "M" + line.map(at).join("L"), fill: "none", stroke: "var(--chosen)", "stroke-width": 2}));
        for (const trial of line) {
          const value = valueOf(trial, metric);
          const x = sx.place(cacheShare(trial));
          if (value.low !== null)
            svg.append(draw(
                "line",
                {x1: x, x2: x, y1: sy.place(value.low), y2: sy.place(value.high), stroke: "var(--chosen)"}));
          svg.append(draw(
              "g", {class: trial === picked ? "recommended" : "front", style: "color:var(--chosen)"},
              mark("front", x, sy.place(value.value)),
              draw("title", {}, `trial ${trial.trial}: ${withInterval(value)}`)));
        }
        return make("div", {}, svg);
      }),
      make("p", {class: "note"}, words));
  numbersBehind(
      "cache-chart", "Hit rate and step time by cache size",
      ["trial", cacheKnob.name, ...cachePanels.map(heading), "differs from the default in"],
      () => trials.sort((a, b) => cacheShare(a) - cacheShare(b))
                .map(
                    (trial) =>
                        [trial.trial, trial.configuration[cacheKnob.index],
                         ...cachePanels.map((metric) => withInterval(valueOf(trial, metric))),
                         changes(trial)]));
}

function startCache() {
  if (!cacheKnob || cachePanels.length === 0 ||
      okTrials.every(
          (trial) => trial.configuration[cacheKnob.index] === null || cacheShare(trial) === null)) {
    sayInstead("cache-chart", "Not in this run: the size of the expert cache did not vary.");
    return;
  }
  onPick(keepDrawn(byId("cache-chart").querySelector(".chart"), drawCache).redraw);
}
