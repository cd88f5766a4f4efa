"use strict";
// A part of a chart fills its frame. It is chosen by sliders, or by dragging over it.
const element = (name, attributes, text = "") => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
};
// Round numbers between two, about so many.
const round = (from, to, most, whole) => {
  const rough = (to - from) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  let step = power * ([1, 2, 5, 10].find((times) => times * power >= rough) ?? 10);
  if (whole) step = Math.max(1, step);
  const all = [];
  for (let i = Math.ceil(from / step); i * step <= to && all.length < 100; i += 1) all.push(i * step);
  return all;
};
const told = (x) => {
  const size = Math.abs(x), plain = Number(x.toPrecision(6));
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? plain.toExponential().replace("e+", "e") : String(plain);
};
// An axis: `place` gives the share of it at which a number is, `ticks` gives numbers between two shares.
const axisOf = (text) => {
  const [kind, ...ends] = text.split(" ");
  const [even, back] = kind === "log" ? [Math.log, Math.exp] : [(x) => x, (x) => x];
  const [low, high] = ends.map((end) => even(Number(end)));
  const ticks = (from, to, most) => {
    const [a, b] = [from, to].map((share) => back(low + share * (high - low)));
    if (kind !== "log" || b < 10 * a) return round(a, b, most, kind === "whole");
    return round(Math.log10(a), Math.log10(b), most, true).map((power) => 10 ** power);
  };
  return { ticks, place: (x) => (even(x) - low) / (high - low) };
};
// Which part of each chart is shown: of each axis from where to where, 0 to 1. A live page takes charts anew.
const shown = new Map();

class Zoom {
  constructor(chart) {
    this.chart = chart;
    [this.left, this.right, this.top, this.bottom] = chart.dataset.frame.split(" ").map(Number);
    [this.width, this.height] = [this.right - this.left, this.bottom - this.top];
    this.axes = [chart.dataset.x, chart.dataset.y].map(axisOf);
    this.marks = chart.querySelector(".marks");
    this.ticks = chart.querySelector(".ticks");
    this.before = [...this.ticks.childNodes];
    this.id = chart.querySelector("title").id;
    if (!shown.has(this.id)) shown.set(this.id, [[0, 1], [0, 1]]);
    this.parts = shown.get(this.id);
    // What is inside ends at its edge while a part is shown.
    const [x, y, width, height] = [this.left - 4, this.top - 4, this.width + 8, this.height + 8];
    this.held = element("svg", { x, y, width, height, viewBox: [x, y, width, height].join(" ") });
    this.held.append(this.marks);
    chart.append(this.held);
    this.inputs = this.controls();
    this.followTheMouse();
    this.parts.forEach(([from, to], axis) => this.set(axis, from, to));
  }

  set(axis, from, to) {
    const low = Math.max(0, Math.min(from, 0.995));
    this.parts[axis] = [low, Math.min(1, Math.max(to, low + 0.005))];
    this.inputs[axis].forEach((input, end) => (input.value = this.parts[axis][end]));
    this.draw();
  }

  reset() {
    [0, 1].forEach((axis) => this.set(axis, 0, 1));
  }

  draw() {
    const { parts: [[x0, x1], [y0, y1]], left, bottom, width, height } = this;
    const whole = x0 === 0 && x1 === 1 && y0 === 0 && y1 === 1, [sx, sy] = [1 / (x1 - x0), 1 / (y1 - y0)];
    const [x, y] = [left - (left + x0 * width) * sx, bottom - (bottom - y0 * height) * sy];
    this.chart.classList.toggle("zoomed", !whole);
    this.marks.setAttribute("transform", whole ? "" : `matrix(${sx} 0 0 ${sy} ${x} ${y})`);
    this.held.setAttribute("overflow", whole ? "visible" : "hidden");
    // Words are where their place is, and as large as before.
    for (const words of this.marks.querySelectorAll("text")) {
      const [x, y] = ["x", "y"].map((name) => Number(words.getAttribute(name)));
      words.setAttribute("transform", whole ? "" : `translate(${x} ${y}) scale(${1 / sx} ${1 / sy}) translate(${-x} ${-y})`);
    }
    this.ticks.replaceChildren(...(whole ? this.before : this.drawnTicks()));
  }

  drawnTicks() {
    const along = (axis, most) => {
      const [from, to] = this.parts[axis];
      const all = this.axes[axis].ticks(from, to, most).map((x) => [(this.axes[axis].place(x) - from) / (to - from), told(x)]);
      return all.filter(([share]) => share >= 0 && share <= 1);
    };
    const { left, right, top, bottom } = this, lines = [], texts = [];
    for (const [share, text] of along(1, this.height / 50)) {
      const y = bottom - share * this.height;
      lines.push(`M${left} ${y}H${right}`);
      texts.push(element("text", { "text-anchor": "end", x: left - 6, y: y + 4 }, text));
    }
    for (const [share, text] of along(0, this.width / 90)) {
      const x = left + share * this.width;
      lines.push(`M${x} ${top}V${bottom}`);
      texts.push(element("text", { "text-anchor": "middle", x: Math.min(x, right + 13 - 4 * text.length), y: bottom + 14 }, text));
    }
    return [...texts, element("path", { class: "grid", d: lines.join("") })];
  }

  // Below the chart; gives the sliders of each axis.
  controls() {
    const make = (name, more = {}) => Object.assign(document.createElement(name), more);
    const inside = make("div"), details = make("details", { className: "zoom" });
    const inputs = ["horizontally", "vertically"].map((textContent, axis) => {
      const group = make("fieldset");
      group.append(make("legend", { textContent }));
      const both = ["from", "to"].map((word, end) => {
        const label = make("label"), input = make("input", { type: "range", min: 0, max: 1, step: "any" });
        input.addEventListener("input", () => {
          const [from, to] = this.parts[axis], value = Number(input.value);
          if (end) this.set(axis, Math.min(from, value - 0.005), value);
          else this.set(axis, value, Math.max(to, value + 0.005));
        });
        label.append(word, input);
        group.append(label);
        return input;
      });
      inside.append(group);
      return both;
    });
    const button = make("button", { type: "button", textContent: "The whole chart" });
    button.addEventListener("click", () => this.reset());
    inside.append(button);
    details.append(make("summary", { textContent: "Zoom" }), inside);
    this.chart.after(details);
    return inputs;
  }

  // A finger scrolls, so only a mouse draws a frame.
  followTheMouse() {
    const { chart, left, bottom, width, height } = this, frame = element("rect", { class: "frame" });
    const place = (event) => {
      const box = chart.getBoundingClientRect(), scale = chart.viewBox.baseVal.width / box.width;
      const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
      return [(x - left) / width, (bottom - y) / height].map((share) => Math.max(0, Math.min(1, share)));
    };
    const between = (a, b) => [0, 1].map((axis) => [Math.min(a[axis], b[axis]), Math.max(a[axis], b[axis])]);
    let from = null;
    chart.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      from = place(event);
      chart.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    chart.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [[x0, x1], [y0, y1]] = between(from, place(event));
      const at = { x: left + x0 * width, y: bottom - y1 * height, width: (x1 - x0) * width, height: (y1 - y0) * height };
      for (const [key, value] of Object.entries(at)) frame.setAttribute(key, value);
      chart.append(frame);
    });
    chart.addEventListener("pointerup", (event) => {
      if (!from) return;
      const chosen = between(from, place(event));
      from = null;
      frame.remove();
      // A click is no frame.
      if (chosen.some(([low, high]) => high - low < 0.02)) return;
      const ends = this.parts.map(([low, high], axis) => chosen[axis].map((share) => low + share * (high - low)));
      ends.forEach(([low, high], axis) => this.set(axis, low, high));
    });
    chart.addEventListener("pointercancel", () => {
      from = null;
      frame.remove();
    });
    chart.addEventListener("dblclick", () => this.reset());
  }
}
