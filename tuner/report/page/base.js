// What every chart of a page uses: the embedded document, elements, numbers. Texts only ever become text
// nodes and attributes, never markup: names and messages come from elsewhere.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on")
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Three significant digits, four where the first one is a 1, as in the tables of the page.
function digits(value) {
  if (value === null || value === undefined) return "-";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e7 || size < 1e-3) return value.toExponential(1);
  const exponent = Math.floor(Math.log10(size));
  return value.toFixed(Math.max(0, (size / 10 ** exponent < 2 ? 3 : 2) - exponent));
}

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

const plainWord = /^[A-Za-z0-9_\-+=./,:@%]+$/;
const shellWord = (word) => (plainWord.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'");

function choice(label, options, value, change) {
  const select = make("select", {on: {change: () => change(select.value)}});
  for (const [id, text] of options) select.append(make("option", {value: id, selected: id === value}, text));
  return make("label", {}, label + " ", select);
}

function tick(label, checked, change) {
  const box = make("input", {type: "checkbox", checked, on: {change: () => change(box.checked)}});
  return make("label", {}, box, " " + label);
}

// A command to be copied; where the clipboard is closed to us its text is selected instead. Lines break
// between chunks.
function commandBlock(chunks) {
  const text = chunks.join(" ");
  const block = make("pre", {class: "command"}, ...chunks.flatMap((chunk) => [make("span", {}, chunk), " "]));
  const button = make("button", {type: "button"}, "Copy");
  const say = (words) => {
    button.textContent = words;
    setTimeout(() => {
      button.textContent = "Copy";
    }, 2000);
  };
  button.addEventListener("click", () => {
    const select = () => {
      getSelection().selectAllChildren(block);
      say("Selected");
    };
    if (navigator.clipboard)
      navigator.clipboard.writeText(text).then(() => say("Copied"), select);
    else
      select();
  });
  return make("div", {}, block, button);
}

function themeButton() {
  const button = byId("theme");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ||
                        (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", button.textContent + " colours");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  button.hidden = false;
  name();
}

// Draws a chart once it comes near the window or is printed, and again when its room changes; height follows
// from what is drawn and says nothing.
function keepDrawn(host, redraw, atOnce = false) {
  let width = 0;
  const drawNow = () => {
    width = host.clientWidth;
    redraw();
  };
  const resized = new ResizeObserver(() => {
    if (Math.abs(host.clientWidth - width) >= 2 && host.clientWidth > 0) drawNow();
  });
  const begin = () => {
    if (width > 0) return;
    seen.disconnect();
    drawNow();
    resized.observe(host);
  };
  const seen = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) begin();
  }, {rootMargin: "400px"});
  host.style.minHeight = "10rem";
  atOnce ? begin() : seen.observe(host);
  addEventListener("beforeprint", begin);
  return {
    redraw: () => {
      if (width > 0) redraw();
    }
  };
}
