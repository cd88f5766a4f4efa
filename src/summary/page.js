"use strict";
// Makes what is in a part of the page usable.
const start = (root) => {
  // Sorting: by the number where a cell has one, else by its text.
  for (const table of root.querySelectorAll("#trials table")) {
    const body = table.tBodies[0];
    table.querySelectorAll("thead th").forEach((th, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...th.childNodes);
      th.append(button);
      button.addEventListener("click", () => {
        const up = th.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
        th.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => {
          const cell = row.cells[column];
          const text = cell.dataset.v ?? cell.textContent;
          return text === "" ? null : isNaN(text) ? text : Number(text);
        };
        const rows = [...body.rows].map((row) => [key(row), row]);
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          const order = typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
          return up ? order : -order;
        });
        body.append(...rows.map(([, row]) => row));
      });
    });
  }
  // Brushing: a line stays where it passes between the limits of every axis, set by sliders or by dragging along an axis.
  for (const part of root.querySelectorAll("#parallel .wide svg")) {
    const limits = document.getElementById("limits");
    const sliders = document.createElement("div");
    const names = [...part.querySelectorAll('text[text-anchor="middle"]')].map((text) => {
      const whole = text.querySelector("title");
      return { name: whole ? whole.textContent : text.textContent, x: Number(text.getAttribute("x")) };
    });
    const lines = [...part.querySelectorAll(".apart")].map((path) => {
      const numbers = path.getAttribute("d").match(/-?[\d.]+/g).map(Number);
      const points = [];
      for (let i = 0; i < numbers.length; i += 2) points.push([numbers[i], numbers[i + 1]]);
      return { path, points };
    });
    const heights = lines.flatMap((line) => line.points.map((point) => point[1]));
    if (!heights.length) continue;
    const top = Math.min(...heights), bottom = Math.max(...heights);
    const grid = part.querySelector(".grid").getAttribute("d").match(/M[\d.]+/g).map((m) => Number(m.slice(1)));
    const ranges = grid.map(() => [0, 100]);
    const count = document.createElement("output");
    const apply = () => {
      let left = 0;
      for (const { path, points } of lines) {
        const within = ranges.every(([low, high], i) => {
          if (low === 0 && high === 100) return true;
          const at = points.find((point) => Math.abs(point[0] - grid[i]) < 1);
          const share = at && (100 * (bottom - at[1])) / (bottom - top);
          return at && share >= low - 0.5 && share <= high + 0.5;
        });
        path.classList.toggle("out", !within);
        left += within;
      }
      count.textContent = left + " of " + lines.length + " lines are within the limits.";
    };
    const inputs = grid.map((_, i) => {
      const group = document.createElement("fieldset");
      const legend = document.createElement("legend");
      legend.textContent = names[i] ? names[i].name : "axis " + (i + 1);
      group.append(legend);
      const both = ["from", "to"].map((word, end) => {
        const label = document.createElement("label");
        const input = document.createElement("input");
        Object.assign(input, { type: "range", min: 0, max: 100, value: ranges[i][end] });
        input.addEventListener("input", () => {
          ranges[i][end] = Number(input.value);
          apply();
        });
        label.append(word, input);
        group.append(label);
        return input;
      });
      sliders.append(group);
      return both;
    });
    const set = (i, low, high) => {
      ranges[i] = [Math.max(0, Math.min(low, high)), Math.min(100, Math.max(low, high))];
      inputs[i].forEach((input, end) => (input.value = ranges[i][end]));
      apply();
    };
    const place = (event) => {
      const box = part.getBoundingClientRect();
      const scale = part.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      return { x, share: (100 * (bottom - y)) / (bottom - top) };
    };
    let drag = null;
    part.addEventListener("pointerdown", (event) => {
      const { x, share } = place(event);
      const axis = grid.reduce((near, at, i) => (Math.abs(at - x) < Math.abs(grid[near] - x) ? i : near), 0);
      if (Math.abs(grid[axis] - x) > 24) return;
      drag = { axis, share };
      part.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    part.addEventListener("pointermove", (event) => drag && set(drag.axis, drag.share, place(event).share));
    part.addEventListener("pointerup", (event) => {
      if (drag && Math.abs(place(event).share - drag.share) < 1) set(drag.axis, 0, 100);
      drag = null;
    });
    limits.append(sliders, count);
    limits.hidden = false;
    apply();
  }
  for (const chart of root.querySelectorAll("figure > svg[data-frame]")) if (!chart.closest(".small")) new Zoom(chart);
};
start(document);
addEventListener("beforeprint", () => document.querySelectorAll("details:not([hidden])").forEach((part) => (part.open = true)));
