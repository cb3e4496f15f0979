// The table behind a chart: made when somebody opens it, since two thousand rows cost more than the chart.
function plainTable(caption, headings, rows) {
  const body = make("tbody", {});
  for (const row of rows)
    body.append(make(
        "tr", {}, ...row.map((cell, i) => make(i ? "td" : "th", i ? {} : {scope: "row"}, String(cell)))));
  return make(
      "div", {class: "scroll", tabindex: 0, role: "region", "aria-label": caption},
      make(
          "table", {}, make("caption", {}, caption),
          make("thead", {}, make("tr", {}, ...headings.map((text) => make("th", {scope: "col"}, text)))),
          body));
}

// rows: called when the table is wanted.
function numbersBehind(id, caption, headings, rows) {
  const details = byId(id).querySelector("details");
  const host = details.querySelector(".numbers");
  const show = () => {
    if (details.open) host.replaceChildren(plainTable(caption, headings, rows()));
  };
  details.ontoggle = show;
  show();
}

// There is nothing to draw: said in words, in the chart's place.
function sayInstead(id, words) {
  const figure = byId(id);
  figure.querySelector(".chart").replaceChildren(make("p", {class: "note"}, words));
  figure.querySelector("figcaption").hidden = true;
  figure.querySelector("details").hidden = true;
}
