// The picked configuration: its knobs, the command that measures it, every metric beside the default's.
// Charts that depend on it register with onPick.
let picked = trialNumbered(data.recommended) || okTrials[0] || null;
const pickListeners = [];
const onPick = (listener) => pickListeners.push(listener);

function pick(trial) {
  picked = trial;
  showPicked();
  for (const listener of pickListeners) listener();
}

function knobTable(trial) {
  const usual = trialNumbered(0);
  const body = make("tbody", {});
  data.knobs.forEach((knob, i) => {
    if (trial.configuration[i] === null) return;
    const differs = usual && usual.configuration[i] !== trial.configuration[i];
    body.append(make(
        "tr", {}, make("th", {scope: "row", title: knob.meaning}, knob.name),
        make("td", {class: differs ? "changed" : null}, trial.configuration[i]),
        make(
            "td", {},
            differs ? "default " + (usual.configuration[i] === null ? "none" : usual.configuration[i]) :
                      "")));
  });
  return make("table", {}, make("caption", {}, "Configuration"), body);
}

// "-12.3 %"; "x 17" where per cent would be hard to read.
const againstText = (ratio) =>
    (ratio > 10 || ratio < 0.1 ? "\u00d7 " + digits(ratio) :
                                 `${ratio >= 1 ? "+" : "\u2212"}${Math.abs((ratio - 1) * 100).toFixed(1)} %`);

function metricTable(trial) {
  const usual = trialNumbered(0);
  const body = make("tbody", {});
  const again = data.final_round && data.final_round.finalists.find((each) => each.trial === trial.trial);
  for (const metric of metrics) {
    const value = valueOf(trial, metric);
    if (!value) continue;
    const other = usual && usual !== trial ? valueOf(usual, metric) : null;
    const change = other && other.value > 0 && value.value > 0 ? againstText(value.value / other.value) : "";
    const last =
        again && again.metrics[metric.name] ? withInterval(measured(again.metrics[metric.name], metric)) : "";
    body.append(make(
        "tr", {}, make("th", {scope: "row", title: metric.meaning}, heading(metric)),
        make("td", {}, withInterval(value)), make("td", {}, last),
        make("td", {}, value.p99 === null ? "" : digits(value.p99)), make("td", {}, String(value.n)),
        make("td", {}, change)));
  }
  const headings = ["metric", "search (95 % interval)", "final round", "p99", "n", "change"];
  return make(
      "div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Metrics of the picked trial"},
      make(
          "table", {}, make("caption", {}, "What was measured; change: against the default"),
          make("thead", {}, make("tr", {}, ...headings.map((text) => make("th", {scope: "col"}, text)))),
          body));
}

// What the picked point is on each server; only points of the profile have it.
let shownServer = "vllm";  // until another one is chosen
function serverFlags(trial) {
  const servers = data.flags[trial.trial];
  const whole = (server) =>
      `moetune export ${shellWord(data.run)} --trial ${trial.trial} --server ${server}`;
  if (!servers)
    return make("p", {class: "note"}, "Flags of servers: of the points of the front, the default and the runner-up.");
  const body = make("div", {class: "server-flags"});
  const show = () => {
    const flags = servers.find((each) => each.server === shownServer) || servers[0];
    const lines = flags.problem ? [make("p", {class: "note"}, flags.problem)] : [
      flags.text ? commandBlock(flags.text.split(/ (?=--)/)) : make("p", {}, "It needs no flag there."),
      ...(flags.lost.length === 0 ? [] : [
        make("p", {}, "No equivalent there:"), make("ul", {}, ...flags.lost.map((text) => make("li", {}, text)))
      ])
    ];
    body.replaceChildren(
        ...lines,
        make("p", {class: "note"}, "A hypothesis until moetune confirm has measured it. The whole command: ", make("code", {}, whole(flags.server))));
  };
  const select = choice("Flags of", servers.map((each) => [each.server, each.name]), (servers.find((each) => each.server === shownServer) || servers[0]).server, (server) => {
    shownServer = server;
    show();
  });
  show();
  return make("div", {}, select, body);
}

function showPicked() {
  const host = byId("picked");
  if (!picked) {
    host.hidden = true;
    return;
  }
  host.hidden = false;
  const jump = (text, number) => {
    const trial = number === null ? null : trialNumbered(number);
    return trial && trial !== picked ?
        make("button", {type: "button", on: {click: () => pick(trial)}}, text) :
        null;
  };
  host.replaceChildren(
      make("h3", {}, `Picked: trial ${picked.trial}, ${roleText(picked)}`), make("p", {}, changes(picked)),
      make(
          "div", {class: "controls"}, jump("Pick the recommended one", data.recommended),
          jump("Pick the default", 0), jump("Pick the runner-up", data.runner_up)),
      make(
          "div", {class: "first"}, make("div", {}, knobTable(picked), commandBlock(measureCommand(picked)), serverFlags(picked)),
          metricTable(picked)));
}
