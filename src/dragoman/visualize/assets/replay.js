"use strict";
// The beam replay: showReplay(root, data) builds it below root; data is what visualize/replay.py makes.
const showReplay = (root, data) => {
  const { element, token, percent } = page;
  const FATES = {
    going: "goes on", finished: "finished", unfinished: "ends at the limit", pruned: "pruned",
    late: "an end too far down to count", left: "left open: the search was decided",
  };
  const [COLUMN, ROW, WIDTH, HEIGHT, TOP] = [146, 34, 122, 26, 28];
  const nodes = data.candidates;
  const languages = data.languages ?? {};
  const steps = data.standings.length;
  const ended = nodes.map((_, place) => place).filter((place) => ["finished", "unfinished"].includes(nodes[place].fate));
  // The translation that is looked at, the best one unless another was chosen, and the way to it.
  const [best, marked] = [data.results[0] ?? null, data.marked ?? null];
  const state = { step: Math.min(1, steps), pruned: true, penalty: data.length_penalty, chosen: null, timer: 0 };

  const path = (place) => (place === null || place === undefined ? [] : [...path(nodes[place].parent), place]);
  const words = (place) => path(place).filter((at) => !["finished", "late"].includes(nodes[at].fate))
    .map((at) => nodes[at].token).join("").replaceAll("▁", " ").trim();
  // A value that rounds to nothing has no sign.
  const number = (value, digits = 3) =>
    (value === null ? "–" : value.toFixed(digits).replace(/^-(?=0\.?0*$)/, "").replace("-", "−"));
  // The length norm of the search, for any exponent.
  const norm = (n, exponent) => ({
    gnmt: ((5 + n) / 6) ** exponent, power: Math.max(n, 1) ** exponent, none: 1,
  })[data.length_norm];

  // ---- the fixed parts
  const tree = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "The tree; it may be wider than its frame" });
  const news = element("p", { role: "status", "aria-live": "polite" });
  const table = element("div", { class: "scroll" });
  const finished = element("div", { class: "scroll" });
  const verdict = element("p", { role: "status", "aria-live": "polite" });
  const range = element("input", {
    type: "range", min: 1, max: Math.max(1, steps), value: state.step, "aria-label": "Step of the search",
    oninput: () => go(Number(range.value)),
  });
  const count = element("span", { class: "quiet" });
  const play = element("button", { type: "button", onclick: () => (state.timer ? pause() : start()) }, "Play");
  const button = (label, name, target) =>
    element("button", { type: "button", "aria-label": name, title: name, onclick: () => { pause(); go(target()); } }, label);

  const penalty = element("input", {
    type: "range", min: -0.5, max: 2, step: 0.05, value: state.penalty, "aria-label": "Length penalty A",
    disabled: data.length_norm === "none",
    oninput: () => { state.penalty = Number(penalty.value); drawFinished(); },
  });
  const penaltyValue = element("output");
  const formula = { gnmt: "((5 + n) / 6)^A", power: "n^A", none: "1 (no length norm)" }[data.length_norm];

  root.replaceChildren(
    element("header", {}, element("h1", {}, "How the translation was found"), page.themeButton(() => {})),
    element("p", {}, element("span", { class: "quiet" }, "Source "), token(data.source, languages.source)),
    element("p", {}, element("span", { class: "quiet" }, marked === best ? "Found " : "Chosen "), token(data.text, languages.target)),
    data.missing === undefined ? "" : element("p", { class: "missing" },
      "The translation that was chosen, ", token(data.missing, languages.target),
      ", is none that this search ended with; what is marked is the best one."),
    element("p", { class: "quiet" }, `Beam search keeps ${data.beam_size} ${data.beam_size === 1 ? "hypothesis" : "hypotheses"}. `
      + `Each step extends all of them by every token and looks at the best ${2 * data.beam_size}: the best `
      + `${data.beam_size} without an end go on, the rest is pruned.`),
    element("div", { class: "controls" },
      element("div", { class: "player", role: "group", "aria-label": "Steps" },
        button("First", "First step", () => 1), button("Back", "Step back", () => state.step - 1), play,
        button("Next", "Step on", () => state.step + 1), button("Last", "Last step", () => steps), range, count),
      page.checkbox("Show what was pruned", true, (on) => { state.pruned = on; draw(); })),
    element("div", { class: "stack" },
      element("section", { class: "card", "aria-label": "Tree of hypotheses" }, tree,
        element("ul", { class: "legend" },
          ...[["going", "goes on; the more of the colour, the likelier"], ["pruned", "pruned"], ["finished", "finished with </s>"],
            ["chosen", "the way to the best or the chosen one"]].map(([name, text]) =>
            element("li", { class: name }, element("i", { "aria-hidden": "true" }), text)))),
      element("div", { class: "pair" },
        element("section", { class: "card" }, element("h2", {}, "Candidates of this step"), table),
        element("section", { class: "card" }, element("h2", {}, "Hypotheses that ended, and the length penalty"),
          element("p", { class: "quiet" }, `Score = log-probability / ${formula}, n counting the tokens. A larger A favours longer `
            + "translations. This orders what this search found; a search with another A may find others."),
          element("label", { class: "player" }, "A", penalty, penaltyValue), news, finished, verdict))));

  // ---- the player
  function go(step) {
    state.step = Math.max(1, Math.min(steps, step));
    state.chosen = null;
    draw();
  }

  function start() {
    if (state.step >= steps) go(1);
    play.textContent = "Pause";
    state.timer = setInterval(() => { if (state.step >= steps || !tree.isConnected) pause(); else go(state.step + 1); }, 900);
  }

  function pause() {
    clearInterval(state.timer);
    state.timer = 0;
    play.textContent = "Play";
  }

  function draw() {
    range.value = state.step;
    count.textContent = `${state.step} of ${steps}`;
    drawTree();
    drawTable();
    drawFinished();
  }

  // ---- the tree
  function svg(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  const bestNow = () => {
    if (state.chosen !== null) return state.chosen;
    if (state.step === steps && marked !== null) return marked;
    if (marked !== best) return path(marked).findLast((place) => nodes[place].n <= state.step);
    const own = nodes.map((_, place) => place).filter((place) => nodes[place].n === state.step);
    return own.find((place) => nodes[place].fate === "going") ?? own[0] ?? null;
  };

  function drawTree() {
    const shown = nodes.map((_, place) => place).filter((place) => nodes[place].n <= state.step
      && (state.pruned || !["pruned", "late"].includes(nodes[place].fate)));
    const rows = new Map();
    const slot = new Map();
    for (const place of shown) {
      const row = rows.get(nodes[place].n) ?? 0;
      slot.set(place, row);
      rows.set(nodes[place].n, row + 1);
    }
    const tallest = Math.max(1, ...rows.values());
    const chosen = new Set(path(bestNow()));
    const x = (n) => 8 + n * COLUMN;
    const y = (place) => TOP + slot.get(place) * ROW;
    const middle = TOP + HEIGHT / 2;
    const drawing = svg("svg", {
      class: "tree", width: x(state.step) + WIDTH + 12, height: TOP + tallest * ROW + 4, role: "img",
      "aria-label": `Tree of the search after step ${state.step}; the table below lists the candidates of the step.`,
    });
    for (let n = 1; n <= state.step; n++) drawing.append(svg("text", { class: "head", x: x(n) + 4, y: 16 }, `step ${n}`));
    for (const place of shown) {
      const { n, parent } = nodes[place];
      const [x0, y0] = parent === null ? [x(0) + WIDTH, middle] : [x(n - 1) + WIDTH, y(parent) + HEIGHT / 2];
      const [x1, y1] = [x(n), y(place) + HEIGHT / 2];
      const bend = (x0 + x1) / 2;
      drawing.append(svg("path", {
        class: `${nodes[place].fate}${chosen.has(place) ? " chosen" : ""}`, d: `M${x0} ${y0} C${bend} ${y0} ${bend} ${y1} ${x1} ${y1}`,
      }));
    }
    drawing.append(svg("g", {}, svg("rect", { x: x(0), y: TOP, width: WIDTH, height: HEIGHT, rx: 6, fill: "none" }),
      svg("text", { x: x(0) + 8, y: middle + 4 }, "start")));
    for (const place of shown) drawing.append(box(place, x(nodes[place].n), y(place), chosen.has(place)));
    tree.replaceChildren(drawing);
    tree.scrollLeft = tree.scrollWidth;
  }

  function box(place, left, top, isChosen) {
    const { token: name, logprob, fate, score } = nodes[place];
    const share = Math.exp(logprob);
    const label = name.length > 9 ? `${name.slice(0, 8)}…` : name;
    const over = page.over(share);
    const back = svg("rect", { x: left, y: top, width: WIDTH, height: HEIGHT, rx: 6 });
    back.style.fill = `rgba(var(--heat), ${share.toFixed(3)})`;
    const made = svg("g", { class: `node ${fate}${isChosen ? " chosen" : ""}` },
      svg("title", {}, `${words(place)}: ${percent(share)}, score ${number(score)}, ${FATES[fate]}`), back,
      svg("text", { class: over, x: left + 7, y: top + 17.5 }, label),
      svg("text", { class: `share ${over}`, x: left + WIDTH - 6, y: top + 17.5, "text-anchor": "end" }, `${(100 * share).toFixed(0)}%`));
    made.addEventListener("click", () => pick(place));
    return made;
  }

  function pick(place) {
    state.chosen = place;
    drawTree();
    drawTable();
  }

  // ---- the tables
  const cell = (text, number_ = false) => element("td", number_ ? { class: "number" } : {}, text);
  const heads = (...names) => element("thead", {}, element("tr", {}, ...names.map(([name, isNumber]) =>
    element("th", { scope: "col", class: isNumber ? "number" : null }, name))));

  function hypothesis(place) {
    return element("td", { class: "long" }, element("button", { type: "button", title: "Show its way in the tree", onclick: () => pick(place) },
      words(place) ? token(words(place), languages.target) : "(empty)"));
  }

  function drawTable() {
    const own = nodes.map((_, place) => place).filter((place) => nodes[place].n === state.step);
    const standing = data.standings[state.step - 1];
    const chosen = new Set(path(bestNow()));
    table.replaceChildren(element("table", { class: "list" },
      heads(["#", true], ["Hypothesis"], ["Token", true], ["Total", true], ["Score", true], ["Fate"]),
      element("tbody", {}, ...own.map((place) => {
        const one = nodes[place];
        return element("tr", { class: `${one.fate}${chosen.has(place) ? " chosen" : ""}` }, cell(`${one.rank + 1}`, true), hypothesis(place),
          cell(percent(Math.exp(one.logprob)), true), cell(number(one.total), true), cell(number(one.score), true), cell(FATES[one.fate]));
      }))));
    news.textContent = state.step < steps
      ? (standing.best_ended === null ? "None has ended yet."
        : `Best that ended: ${number(standing.best_ended)}. An open hypothesis can still reach ${number(standing.reachable)}, so the search goes on.`)
      : standing.reachable !== null && standing.best_ended !== null && standing.n < data.limit
        ? `Best that ended: ${number(standing.best_ended)}. An open hypothesis can reach ${number(standing.reachable)} at most: the search is over.`
        : "The search is over.";
  }

  function drawFinished() {
    const score = (place) => nodes[place].total / norm(nodes[place].n, state.penalty);
    const order = ended.filter((place) => nodes[place].n <= state.step).sort((a, b) => score(b) - score(a));
    penaltyValue.textContent = number(state.penalty, 2);
    finished.replaceChildren(element("table", { class: "list" },
      heads(["#", true], ["Hypothesis"], ["n", true], ["Total", true], ["Score", true]),
      element("tbody", {}, ...order.map((place, rank) => element("tr", { class: marked === place ? "chosen" : null },
        cell(`${rank + 1}`, true), hypothesis(place), cell(`${nodes[place].n}`, true), cell(number(nodes[place].total), true),
        cell(number(score(place)), true))))));
    verdict.textContent = state.step < steps || marked === null ? ""
      : marked !== best ? `The chosen translation (shaded) is number ${order.indexOf(marked) + 1} of these.`
        : order[0] === best ? "The translation found (shaded) is the first of these."
          : "With this A another hypothesis comes first; the shaded one is the translation that was found.";
  }

  if (steps) draw();
  else tree.textContent = "A blank sentence needs no search.";
};
