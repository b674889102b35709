"use strict";
// The attention view: showAttention(root, data) builds it below root.
// data: {source, text, words, maps: [{kind, title, note, queries, keys, layers, heads, weights, query_words, key_words}]}
// languages, where they are known: {source, target}, codes. weights: base64 of 16-bit numbers, 65535 being 1, in the order layer, head, query, key.
const showAttention = (root, data) => {
  const { element, token, percent, direction } = page;
  const MEAN = "mean";
  const state = { map: data.maps[0], words: data.words, raised: false, layer: 0, head: MEAN, query: 0, key: 0 };
  state.layer = state.map.layers - 1;

  // ---- numbers
  function decode(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const numbers = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length / 2 }, (_, i) => numbers.getUint16(2 * i, true) / 65535);
  }

  // Rows of weights [query][key] of one layer and head; words: summed over the keys of a word, the mean of its queries.
  function panel(map, layer, head, words) {
    map.numbers ??= decode(map.weights);
    const [Q, K] = [map.queries.length, map.keys.length];
    const heads = head === MEAN ? [...Array(map.heads).keys()] : [head];
    const rows = Array.from({ length: Q }, () => new Float64Array(K));
    for (const one of heads) {
      const start = (layer * map.heads + one) * Q * K;
      for (let q = 0; q < Q; q++) for (let k = 0; k < K; k++) rows[q][k] += map.numbers[start + q * K + k] / heads.length;
    }
    if (!words) return rows;
    return map.query_words.groups.map((own) => map.key_words.groups.map((keys) =>
      own.reduce((sum, q) => sum + keys.reduce((part, k) => part + rows[q][k], 0), 0) / own.length));
  }

  const labels = () => state.words
    ? [state.map.query_words.labels, state.map.key_words.labels] : [state.map.queries, state.map.keys];
  const shown = (weight) => (state.raised ? Math.sqrt(weight) : weight);
  const headName = () => `layer ${state.layer + 1}, ${state.head === MEAN ? "mean of all heads" : `head ${state.head + 1}`}`;

  // The sentence that queries and keys are of: its language and its writing direction.
  const side = (name) => ({ lang: data.languages?.[name], dir: direction({ source: data.source, target: data.text }[name]) });
  const asking = () => side(state.map.kind === "encoder" ? "source" : "target");
  const answering = () => side(state.map.kind === "decoder" ? "target" : "source");

  // ---- the fixed parts
  const heads = element("div", { class: "scroll" });
  const strips = element("div");
  const status = element("p", { class: "status quiet", role: "status", "aria-live": "polite" });
  const table = element("div", { class: "scroll", id: "map" });
  const note = element("p", { class: "quiet" });
  const heading = element("h2");
  const columns = element("div", { class: "columns" },
    element("section", { class: "card", "aria-label": "Choice of layer and head" }, heads),
    element("section", { class: "card", "aria-label": "Attention map" }, heading, note, strips, status, table));

  root.replaceChildren(
    element("header", {}, element("h1", {}, "Where the model looked"), page.themeButton(() => drawHeads())),
    element("dl", { class: "sentences" },
      element("dt", {}, "Source"), element("dd", { dir: direction(data.source) }, token(data.source, side("source").lang)),
      element("dt", {}, "Translation"), element("dd", { dir: direction(data.text) }, token(data.text, side("target").lang))),
    element("div", { class: "controls" },
      page.segments("kind", "Attention", data.maps.map((map) => [map.kind, map.title]), state.map.kind, (kind) => {
        state.map = data.maps.find((map) => map.kind === kind);
        Object.assign(state, { layer: state.map.layers - 1, head: MEAN, query: 0, key: 0 });
        drawHeads();
        drawMap();
      }),
      page.checkbox("Whole words", state.words, (on) => {
        Object.assign(state, { words: on, query: 0, key: 0 });
        drawHeads();
        drawMap();
      }),
      page.checkbox("Raise faint weights", state.raised, (on) => { state.raised = on; drawHeads(); drawMap(); })),
    columns);

  // ---- layer and head
  function drawHeads() {
    const map = state.map;
    const choices = [MEAN, ...Array(map.heads).keys()];
    const [queries, keys] = labels();
    const room = Math.min(720, root.clientWidth - 100);
    const side = Math.max(30, Math.min(64, Math.floor(room / choices.length) - 5));
    const height = Math.round(Math.max(24, Math.min(96, side * queries.length / keys.length)));
    const grid = element("div", { class: "heads" });
    grid.style.gridTemplateColumns = `auto repeat(${choices.length}, ${side}px)`;
    grid.append(element("span", { class: "edge", "aria-hidden": "true" }, "layer"),
      ...choices.map((head) => element("span", { class: "edge", "aria-hidden": "true" }, head === MEAN ? "mean" : `${head + 1}`)));
    for (let layer = 0; layer < map.layers; layer++) {
      grid.append(element("span", { class: "edge", "aria-hidden": "true" }, `${layer + 1}`));
      for (const head of choices) grid.append(thumbnail(layer, head, height));
    }
    grid.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -choices.length, ArrowDown: choices.length }[event.key];
      if (!step) return;
      event.preventDefault();
      const inputs = [...grid.querySelectorAll("input")];
      const next = inputs[inputs.indexOf(document.activeElement) + step];
      if (next) { next.focus(); next.click(); }
    });
    heads.replaceChildren(element("fieldset", {}, element("legend", {}, "Layer and head"), grid,
      element("p", { class: "quiet" }, "Columns are heads.", element("span", { class: "keys" }, " Arrow keys move."))));
    columns.classList.toggle("stacked", (side + 5) * choices.length > 420);
  }

  function thumbnail(layer, head, height) {
    const rows = panel(state.map, layer, head, state.words);
    const canvas = element("canvas", { width: rows[0].length, height: rows.length, "aria-hidden": "true" });
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--heat").split(",").map(Number);
    const context = canvas.getContext("2d");
    const image = context.createImageData(rows[0].length, rows.length);
    rows.flatMap((row) => [...row]).forEach((weight, i) => image.data.set([...colour, Math.round(255 * shown(weight))], 4 * i));
    context.putImageData(image, 0, 0);
    const input = element("input", {
      type: "radio", name: "head", checked: layer === state.layer && head === state.head,
      "aria-label": `layer ${layer + 1}, ${head === MEAN ? "mean of all heads" : `head ${head + 1}`}`,
      onchange: () => { Object.assign(state, { layer, head }); drawMap(); },
    });
    const label = element("label", { title: input.getAttribute("aria-label") }, canvas, input);
    label.style.height = `${height}px`;
    return label;
  }

  // ---- the map
  let rows = [];
  let cells = [];

  function drawMap() {
    rows = panel(state.map, state.layer, state.head, state.words);
    const [queries, keys] = labels();
    heading.textContent = `${state.map.title}, ${headName()}`;
    note.textContent = state.map.note;
    const wide = columns.clientWidth || 900;
    const margin = 50 + 8 * Math.min(14, Math.max(...queries.map((query) => query.length)));
    const cell = Math.max(wide < 600 ? 22 : 15, Math.min(38, Math.floor((wide - margin) / keys.length)));
    columns.classList.toggle("wide", cell * keys.length + margin > wide - heads.firstChild.offsetWidth - 60);
    const head = element("tr", { role: "row" }, element("td", { "aria-hidden": "true" }),
      ...keys.map((key) => element("th", { scope: "col", role: "columnheader" }, element("span", { title: key }, token(key, answering().lang)))));
    head.firstChild.style.boxShadow = "none";
    cells = queries.map((query, q) => keys.map((key, k) => weightCell(q, k, query, key)));
    const body = queries.map((query, q) => element("tr", { role: "row" },
      element("th", { scope: "row", role: "rowheader" }, element("span", { title: query }, token(query, asking().lang))), ...cells[q]));
    const made = element("table", {
      class: `map${cell < 27 ? " bare" : ""}`, role: "grid", "aria-label": `${heading.textContent}: weights in percent`,
      onkeydown: move, onmouseover: (event) => point(event), onclick: (event) => point(event),
    }, element("thead", {}, head), element("tbody", {}, ...body));
    made.style.setProperty("--cell", `${cell}px`);
    made.style.setProperty("--label", `${cell < 20 ? 12 : 14}px`);
    table.replaceChildren(made);
    drawStrips(queries, keys);
    choose(Math.min(state.query, queries.length - 1), best(Math.min(state.query, queries.length - 1)));
  }

  function weightCell(q, k, query, key) {
    const weight = rows[q][k];
    const cell = element("td", {
      role: "gridcell", class: `shade ${page.over(shown(weight))}`, tabindex: "-1",
      "data-q": q, "data-k": k, "aria-label": `${query} to ${key}: ${percent(weight)}`,
    }, weight >= 0.005 ? (100 * weight).toFixed(0) : "");
    cell.style.setProperty("--w", shown(weight).toFixed(4));
    return cell;
  }

  function point(event) {
    const cell = event.target.closest("td[data-q]");
    if (cell) choose(Number(cell.dataset.q), Number(cell.dataset.k));
  }

  function move(event) {
    const [Q, K] = [rows.length, rows[0].length];
    let { query, key } = state;
    if (event.key === "ArrowUp") query -= 1;
    else if (event.key === "ArrowDown") query += 1;
    else if (event.key === "ArrowLeft") key -= 1;
    else if (event.key === "ArrowRight") key += 1;
    else if (event.key === "Home") key = 0;
    else if (event.key === "End") key = K - 1;
    else return;
    event.preventDefault();
    choose(Math.max(0, Math.min(Q - 1, query)), Math.max(0, Math.min(K - 1, key)));
    cells[state.query][state.key].focus();
  }

  // ---- the sentences, shaded for one query
  let asked = [];
  let answers = [];

  function drawStrips(queries, keys) {
    const [own, other] = [asking(), answering()];
    asked = queries.map((query, q) => element("button", {
      type: "button", tabindex: "-1", onclick: () => choose(q, best(q)),
    }, token(query, own.lang)));
    answers = keys.map((key) => element("span", { class: "shade smooth" }, token(key, other.lang)));
    const onwards = own.dir === "rtl" ? -1 : 1;
    const bar = element("div", { class: "strip", dir: own.dir, role: "toolbar", "aria-label": state.map.asks });
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -onwards, ArrowRight: onwards }[event.key];
      const next = step && asked[state.query + step];
      if (!next) return;
      event.preventDefault();
      choose(state.query + step, best(state.query + step));
      next.focus();
    });
    bar.append(...asked);
    strips.replaceChildren(
      element("div", { class: "quiet" }, state.map.asks), bar,
      element("div", { class: "quiet" }, state.map.answers), element("div", { class: "strip", dir: other.dir }, ...answers));
  }

  const best = (q) => rows[q].reduce((top, weight, k) => (weight > rows[q][top] ? k : top), 0);

  function choose(query, key) {
    const [queries, keys] = labels();
    const last = cells[state.query]?.[state.key];
    if (last) last.tabIndex = -1;
    for (const marked of table.querySelectorAll(".on")) marked.classList.remove("on");
    asked[state.query]?.setAttribute("tabindex", "-1");
    Object.assign(state, { query, key });
    cells[query][key].tabIndex = 0;
    table.querySelectorAll("tbody th")[query].classList.add("on");
    table.querySelectorAll("thead th")[key].classList.add("on");
    asked.forEach((one, q) => one.setAttribute("aria-pressed", String(q === query)));
    asked[query].tabIndex = 0;
    answers.forEach((one, k) => {
      one.style.setProperty("--w", shown(rows[query][k]).toFixed(4));
      one.className = `shade smooth ${page.over(shown(rows[query][k]))}`;
    });
    const order = [...rows[query].keys()].sort((a, b) => rows[query][b] - rows[query][a]).slice(0, 3);
    const total = rows[query].reduce((sum, weight) => sum + weight, 0);
    status.replaceChildren(
      element("strong", {}, token(queries[query]), " → ", token(keys[key]), ` ${percent(rows[query][key])}`),
      total < 0.5 ? ". This position may attend to nothing." : ". Most: ",
      ...(total < 0.5 ? [] : order.flatMap((k, i) => [i ? ", " : "", token(keys[k]), ` ${percent(rows[query][k])}`])));
  }

  drawHeads();
  drawMap();
  let pending = 0;
  const resized = () => {
    clearTimeout(pending);
    if (columns.isConnected) pending = setTimeout(drawMap, 150);
    else removeEventListener("resize", resized);
  };
  addEventListener("resize", resized);
};
