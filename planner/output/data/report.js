"use strict";
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const $ = (id) => document.getElementById(id);
  const NS = "http://www.w3.org/2000/svg";
  const H = 300, LEFT = 58, RIGHT = 12, TOP = 12, BOTTOM = 42;
  const roomFor = () => Math.max(300, Math.min(720, document.querySelector("main").clientWidth));
  let W = roomFor();      // one unit is one pixel, so that text keeps its size on a phone
  const DASH = ["", "7 4", "9 3 2 3", "2 3", "12 3", "5 2 1 2", "1 4", "14 4"];

  const digits = (value, places = 3) => value === null || value === undefined ? "–"
    : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(places)).toString();
  const ms = (seconds) => seconds === null ? "–" : digits(seconds * 1e3, 4) + " ms";

  function el(name, attributes, ...children) {
    const svg = ["svg", "g", "line", "path", "rect", "text", "circle", "title", "pattern", "defs", "polygon"].includes(name);
    const node = svg ? document.createElementNS(NS, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  // Axes: linear or logarithmic, about six round ticks.
  function scale(low, high, from, to, log) {
    const f = log ? Math.log10 : (x) => x, a = f(low), b = f(high) === f(low) ? f(low) + 1 : f(high);
    const at = (x) => from + (f(x) - a) / (b - a) * (to - from);
    let ticks = [];
    if (log) for (let p = Math.ceil(a); p <= b; p++) ticks.push(10 ** p);
    else {
      const rough = (high - low) / 6 || 1, base = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((k) => k * base).find((k) => k >= rough);
      for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-9; x += step) ticks.push(Number(x.toPrecision(12)));
    }
    return { at, ticks };
  }

  function frame(figure, title, x, y, xlabel, ylabel, xticks) {
    const svg = el("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
    for (const tick of y.ticks) {
      svg.append(el("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y.at(tick), y2: y.at(tick) }),
        el("text", { x: LEFT - 6, y: y.at(tick) + 4, "text-anchor": "end" }, digits(tick)));
    }
    const every = Math.ceil((xticks || x.ticks).length * 34 / (W - LEFT - RIGHT));
    for (const tick of (xticks || x.ticks).filter((_, index) => index % every === 0)) svg.append(el("text", { x: x.at(tick), y: H - BOTTOM + 16, "text-anchor": "middle" }, digits(tick)));
    svg.append(el("path", { class: "axis", d: `M${LEFT} ${TOP}V${H - BOTTOM}H${W - RIGHT}` }),
      el("text", { class: "soft", x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, xlabel),
      el("text", { class: "soft", x: 14, y: (TOP + H - BOTTOM) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(TOP + H - BOTTOM) / 2})` }, ylabel));
    figure.replaceChildren(el("figcaption", {}, title), svg);
    return svg;
  }

  const color = (index) => `var(--s${index % 8})`;
  const dash = (index) => DASH[(index + 3 * Math.floor(index / 8)) % 8];
  const marks = [
    (x, y, r) => ["circle", { cx: x, cy: y, r }],
    (x, y, r) => ["rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }],
    (x, y, r) => ["polygon", { points: `${x},${y - r * 1.3} ${x + r * 1.2},${y + r} ${x - r * 1.2},${y + r}` }],
    (x, y, r) => ["polygon", { points: `${x},${y - r * 1.4} ${x + r * 1.4},${y} ${x},${y + r * 1.4} ${x - r * 1.4},${y}` }],
    (x, y, r) => ["polygon", { points: `${x},${y + r * 1.3} ${x + r * 1.2},${y - r} ${x - r * 1.2},${y - r}` }],
  ];
  function mark(index, x, y, text, filled, r = 4) {
    const [name, attributes] = marks[index % marks.length](x, y, r);
    return el(name, { ...attributes, stroke: color(index), fill: filled ? color(index) : "var(--paper)" }, el("title", {}, text));
  }
  const path = (points, attributes) => el("path", { fill: "none", "stroke-width": 1.6,
    d: points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""), ...attributes });
  function legend(figure, names, draw) {
    const list = el("ul", { class: "legend" });
    names.forEach((name, index) => {
      const key = el("svg", { viewBox: "0 0 36 16", "aria-hidden": "true" });
      key.append(...draw(index));
      list.append(el("li", {}, key, " " + name));
    });
    figure.append(list);
  }
  const lineKey = (index) => [path([[1, 8], [35, 8]], { stroke: color(index), "stroke-dasharray": dash(index) }), mark(index, 18, 8, "", false)];

  // Hatches keep stacked parts apart in print.
  function hatches(svg, prefix) {
    const shapes = ["", "M0 6L6 0", "M0 0L6 6", "M0 3H6", "M3 0V6", "M0 6L6 0M0 0L6 6", "M0 3H6M3 0V6", "M3 3h.1", "M0 0h6"];
    const defs = el("defs", {});
    shapes.forEach((d, index) => defs.append(el("pattern", { id: `${prefix}${index}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
      el("rect", { width: 6, height: 6, fill: color(index + 1) }), el("path", { d, stroke: "var(--paper)", "stroke-width": 1.2 }))));
    svg.append(defs);
  }

  const cellOf = () => facts.cells.find((cell) => cell.batch === Number($("batch").value) && cell.context_tokens === Number($("context").value));
  const drafterOf = (cell) => cell.drafters.find((item) => item.drafter === $("drafter").value) || cell.drafters[0];
  const column = (item, name) => item.columns[name];

  function numbers() {
    const cell = cellOf(), item = drafterOf(cell), list = $("numbers");
    const shown = [["off, a step", ms(cell.off.step_s), "off_step_s", cell.off.step_s],
      ["off, tokens/s/user", digits(cell.off.tokens_per_s_per_user, 4), "off_tokens_per_s_per_user", cell.off.tokens_per_s_per_user]];
    if (item) {
      const row = Math.min(Number($("draft").value), column(item, "draft_len").length - 1);
      const at = (name) => column(item, name) === null ? null : column(item, name)[row];
      $("draft-shown").value = `${at("draft_len")}`;
      const range = cell.recommendation;
      shown.push(["a step", ms(at("step_s")), "step_s", at("step_s")],
        ["tokens per step (AL)", digits(at("acceptance_length"), 4), "acceptance_length", at("acceptance_length")],
        ["AL that breaks even", digits(at("break_even_acceptance_length"), 4), "break_even_acceptance_length", at("break_even_acceptance_length")],
        ["speedup, decode", at("speedup") === null ? "–" : digits(at("speedup"), 4) + "x", "speedup", at("speedup")],
        ["speedup, end to end", at("speedup_end_to_end") === null ? "–" : digits(at("speedup_end_to_end"), 4) + "x", "speedup_end_to_end", at("speedup_end_to_end")],
        ["tokens/s/user", digits(at("tokens_per_s_per_user"), 4), "tokens_per_s_per_user", at("tokens_per_s_per_user")],
        ["tokens/s/GPU", digits(at("tokens_per_s_per_gpu"), 4), "tokens_per_s_per_gpu", at("tokens_per_s_per_gpu")],
        ["memory of a GPU", digits(at("memory_bytes") / 1e9, 4) + " GB" + (at("fits_memory") ? "" : ", too large"), "memory_bytes", at("memory_bytes")],
        ["recommended here", range.speculate ? `${range.drafter} D = ${range.draft_len}` : range.speculate === false ? "off" : "acceptance unknown", "recommended", range.draft_len]);
    }
    list.replaceChildren(...shown.map(([name, text, key, value]) => el("div", {}, el("dt", {}, name),
      el("dd", { "data-key": key, "data-value": value === null || value === undefined ? "" : String(value) }, text))));
  }

  function step() {
    const cell = cellOf(), item = drafterOf(cell), figure = $("step");
    if (!item) return figure.replaceChildren();
    const names = Object.keys(item.parts_s), lens = column(item, "draft_len"), off = cell.off.step_s;
    const total = lens.map((_, row) => column(item, "step_s")[row]);
    const x = scale(-0.5, Math.max(...lens) + 0.5, LEFT, W - RIGHT), y = scale(0, Math.max(...total, off) * 1.08 * 1e3, H - BOTTOM, TOP);
    const chosen = Number($("draft").value), width = (x.at(1) - x.at(0)) * 0.8;
    const longer = total[chosen] / off - 1;
    const title = `${item.drafter}, D = ${lens[chosen]}: a step is ${Math.abs(longer * 100).toFixed(0)} % ${longer < 0 ? "shorter" : "longer"} than off at batch ${cell.batch}, context ${cell.context_tokens}`;
    const svg = frame(figure, title, x, y, "draft length D (tokens)", "time of one step (ms)", lens);
    hatches(svg, "part");
    lens.forEach((d, row) => {
      let base = 0;
      names.forEach((name, index) => {
        const value = item.parts_s[name][row] * 1e3;
        svg.append(el("rect", { x: x.at(d) - width / 2, width, y: y.at(base + value), height: Math.max(y.at(base) - y.at(base + value), 0), fill: `url(#part${index})`, stroke: "var(--paper)", "stroke-width": 0.5 },
          el("title", {}, `D = ${d}, ${name}: ${digits(value, 4)} ms of ${digits(total[row] * 1e3, 4)} ms`)));
        base += value;
      });
      if (row === chosen) svg.append(el("text", { x: x.at(d), y: y.at(base) - 3, "text-anchor": "middle" }, "▼"));
    });
    svg.append(el("line", { class: "off", x1: LEFT, x2: W - RIGHT, y1: y.at(off * 1e3), y2: y.at(off * 1e3) }, el("title", {}, `off: ${ms(off)}`)));
    for (const edge of facts.tile_edges) if (edge <= Math.max(...lens)) svg.append(el("line", { class: "axis", "stroke-dasharray": "2 3", x1: x.at(edge - 0.5), x2: x.at(edge - 0.5), y1: TOP, y2: H - BOTTOM }, el("title", {}, "a larger attention tile, or another")));
    legend(figure, [...names, "off"], (index) => index < names.length ? [el("rect", { width: 36, height: 16, fill: `url(#part${index})` })] : [el("line", { class: "off", x1: 0, x2: 36, y1: 8, y2: 8 })]);
    if (facts.tile_edges.some((edge) => edge <= Math.max(...lens))) figure.append(el("p", { class: "soft" }, "Dotted lines: from here a larger attention tile, or one more."));
  }

  function speedup() {
    const figure = $("speedup"), context = Number($("context").value), name = $("drafter").value;
    const lines = facts.cells.filter((cell) => cell.context_tokens === context).map((cell) => [cell.batch, cell.drafters.find((item) => item.drafter === name)]).filter(([, item]) => item && column(item, "speedup"));
    if (!lines.length) return figure.replaceChildren(el("p", { class: "soft" }, "Speedups need an acceptance for this drafter."));
    const lens = column(lines[0][1], "draft_len"), all = lines.flatMap(([, item]) => column(item, "speedup"));
    const x = scale(0, Math.max(...lens, 1), LEFT, W - RIGHT - 10), y = scale(0, Math.max(...all, 1) * 1.05, H - BOTTOM, TOP);
    const best = lines.map(([batch, item]) => { const s = column(item, "speedup"), k = s.indexOf(Math.max(...s)); return [batch, lens[k], s[k]]; });
    const title = best.length > 1 ? `Best D runs from ${best[0][1]} at batch ${best[0][0]} to ${best[best.length - 1][1]} at batch ${best[best.length - 1][0]} (context ${context}, decode)` : `Best D at batch ${best[0][0]} is ${best[0][1]}: ${digits(best[0][2])}x`;
    const svg = frame(figure, title, x, y, "draft length D (tokens)", "speedup over off", lens);
    svg.append(el("line", { class: "off", x1: LEFT, x2: W - RIGHT, y1: y.at(1), y2: y.at(1) }));
    lines.forEach(([batch, item], index) => {
      const s = column(item, "speedup");
      svg.append(path(lens.map((d, k) => [x.at(d), y.at(s[k])]), { stroke: color(index), "stroke-dasharray": dash(index) }));
      lens.forEach((d, k) => svg.append(mark(index, x.at(d), y.at(s[k]), `batch ${batch}, D = ${d}: ${digits(s[k], 4)}x`, s[k] === Math.max(...s))));
    });
    legend(figure, lines.map(([batch]) => `batch ${batch}`), lineKey);
  }

  function map() {
    const table = $("map");
    $("map-finding").textContent = facts.map_title || "Acceptance is not known: there is no recommendation.";
    const head = el("tr", {}, el("th", { scope: "col" }, "batch \\ context"), ...facts.contexts.map((context) => el("th", { scope: "col", class: "number" }, context.toLocaleString("en"))));
    const rows = facts.batches.map((batch) => el("tr", {}, el("th", { scope: "row", class: "number" }, String(batch)), ...facts.contexts.map((context) => {
      const cell = facts.cells.find((item) => item.batch === batch && item.context_tokens === context), best = cell.recommendation;
      const text = !cell.off.fits_memory && !best.speculate ? "too large" : best.speculate ? `${best.draft_len}` : best.speculate === false ? "off" : "?";
      const gain = best.speedup === null ? "" : `, ${digits(best.speedup)}x`;
      const button = el("button", { type: "button", "data-batch": batch, "data-context": context, "aria-label": `batch ${batch}, context ${context}: ${text}${gain}` }, text);
      button.addEventListener("click", () => { $("batch").value = batch; $("context").value = context; recommended(); update(); });
      return el("td", {}, button);
    })));
    table.replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
  }
  function pressed() {
    for (const button of $("map").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.batch === $("batch").value && button.dataset.context === $("context").value));
  }

  function pareto() {
    const figure = $("pareto"), context = Number($("context").value);
    const curves = facts.pareto ? facts.pareto.curves.filter((curve) => curve.context_tokens === context) : [];
    if (!curves.length) return figure.replaceChildren(el("p", { class: "soft" }, "No batch fits in memory at this context."));
    const x = scale(0, Math.max(...curves.flatMap((curve) => curve.user)) * 1.05, LEFT, W - RIGHT), y = scale(0, Math.max(...curves.flatMap((curve) => curve.gpu)) * 1.05, H - BOTTOM, TOP);
    const svg = frame(figure, facts.pareto.findings[String(context)] || facts.pareto.finding, x, y, `speed of a user (tokens/s, ${facts.pareto.metric === "decode" ? "decode only" : "prefill included"})`, "throughput (tokens/s/GPU)");
    curves.forEach((curve, index) => {
      svg.append(path(curve.user.map((u, k) => [x.at(u), y.at(curve.gpu[k])]), { stroke: color(index), "stroke-dasharray": dash(index) }));
      curve.user.forEach((u, k) => { if ((curve.batch[k] & (curve.batch[k] - 1)) === 0) svg.append(mark(index, x.at(u), y.at(curve.gpu[k]), `${curve.option}, batch ${curve.batch[k]}${curve.draft_len[k] === null ? "" : ", D = " + curve.draft_len[k]}: ${digits(u, 4)} tokens/s/user, ${digits(curve.gpu[k], 4)} tokens/s/GPU`, curve.frontier[k])); });
    });
    legend(figure, curves.map((curve) => curve.option), lineKey);
    figure.append(el("p", { class: "soft" }, "Marks: batches that are powers of two; filled where no other option beats them."));
  }

  function acceptance() {
    const picture = facts.acceptance, figure = $("acceptance");
    if (!picture) return figure.replaceChildren(el("p", { class: "soft" }, "No acceptance was given."));
    const names = Object.keys(picture.curves), longest = Math.max(...picture.draft_lens);
    const x = scale(0, longest, LEFT, W - RIGHT - 10), y = scale(1, Math.max(...names.flatMap((name) => picture.curves[name][2])) * 1.05, H - BOTTOM, TOP);
    const svg = frame(figure, picture.title, x, y, "draft length D (tokens)", "tokens per step (AL)", picture.draft_lens);
    names.forEach((name, index) => {
      const [mean, low, high] = picture.curves[name];
      const area = [...high.map((v, d) => [x.at(d), y.at(v)]), ...low.map((v, d) => [x.at(d), y.at(v)]).reverse()];
      svg.append(path(area, { fill: color(index + 1), "fill-opacity": 0.15, stroke: color(index + 1), "stroke-width": 0.5 }), path(mean.map((v, d) => [x.at(d), y.at(v)]), { stroke: color(index + 1), "stroke-dasharray": dash(index) }));
      mean.forEach((v, d) => svg.append(mark(index + 1, x.at(d), y.at(v), `${name}, D = ${d}: ${digits(v, 4)} (${digits(low[d], 4)} to ${digits(high[d], 4)})${d > picture.known[name] ? ", extrapolated" : ""}`, d <= picture.known[name])));
    });
    legend(figure, names.map((name) => `${name}, band: 90 %`), (index) => lineKey(index + 1));
  }

  function roofline() {
    const picture = facts.roofline, figure = $("roofline");
    if (!picture) return figure.replaceChildren();
    const reach = picture.points.map((point) => point.flop_per_byte), ridge = picture.flop_per_s / picture.bytes_per_s;
    const low = Math.min(...reach, ridge / 10) / 2, high = Math.max(...reach, ridge * 2) * 2, slow = Math.min(...picture.points.map((point) => point.flop_per_s), picture.flop_per_s) / 1e12;
    const x = scale(low, high, LEFT, W - RIGHT, true), y = scale(slow / 3, picture.flop_per_s / 1e12 * 2, H - BOTTOM, TOP, true);
    const svg = frame(figure, picture.title, x, y, "work per byte from memory (FLOP/byte)", "rate of one GPU (TFLOP/s)");
    const start = Math.max(low, slow / 3 * 1e12 / picture.bytes_per_s);
    svg.append(path([[x.at(start), y.at(start * picture.bytes_per_s / 1e12)], [x.at(ridge), y.at(picture.flop_per_s / 1e12)], [x.at(high), y.at(picture.flop_per_s / 1e12)]], { stroke: "var(--ink)" }));
    const parts = [...new Set(picture.points.map((point) => point.part))];
    picture.points.forEach((point) => svg.append(mark(parts.indexOf(point.part) * 3 + 1, x.at(point.flop_per_byte), y.at(point.flop_per_s / 1e12), `verify ${point.part}, D = ${point.draft_len}: ${digits(point.flop_per_byte)} FLOP/byte, ${digits(point.flop_per_s / 1e12)} TFLOP/s`, true)));
    legend(figure, parts.map((part) => `verify ${part}, D = 0 to 16`), (index) => [mark(index * 3 + 1, 18, 8, "", true)]);
    figure.append(el("p", { class: "soft" }, `${picture.gpu}, batch ${picture.batch}, context ${picture.context_tokens}; roof by datasheet (${picture.dtype}).`));
  }

  function recommended() {
    const cell = cellOf(), best = cell.recommendation;
    if (best.drafter) $("drafter").value = best.drafter;
    const item = drafterOf(cell);
    if (item) $("draft").value = Math.max(column(item, "draft_len").indexOf(best.draft_len), 0);
  }
  function bound() {
    const item = drafterOf(cellOf());
    if (!item) return;
    $("draft").max = column(item, "draft_len").length - 1;
  }
  function update() { bound(); numbers(); step(); speedup(); pareto(); pressed(); }
  addEventListener("resize", () => {
    if (roomFor() === W) return;
    W = roomFor();
    acceptance(); roofline(); update();
  });

  const fill = (id, values, text) => $(id).replaceChildren(...values.map((value) => el("option", { value }, text(value))));
  fill("batch", facts.batches, String);
  fill("context", facts.contexts, (context) => context.toLocaleString("en"));
  fill("drafter", facts.drafters, String);
  $("batch").value = facts.headline.batch;
  $("context").value = facts.headline.context_tokens;
  map(); acceptance(); roofline(); bound(); recommended(); update();
  for (const id of ["batch", "context", "drafter"]) $(id).addEventListener("change", update);
  $("draft").addEventListener("input", update);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll("button.copy")) button.addEventListener("click", () => {
    const text = $(button.dataset.of).textContent;
    const done = () => { button.textContent = "Copied"; };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => getSelection().selectAllChildren($(button.dataset.of)));
    else getSelection().selectAllChildren($(button.dataset.of));
  });
  document.documentElement.dataset.ready = "yes";
})();
