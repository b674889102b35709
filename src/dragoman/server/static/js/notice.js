// What the page says: refusals where everybody sees them, and news for screen readers.
import { element, part } from "./dom.js";

export function say(text, language = "") {
  const news = part("news");
  news.replaceChildren(language ? element("span", { lang: language }, text) : text);
}

export function hush() {
  part("notice").replaceChildren();
}

// again: what to do when somebody wants to try again.
export function showRefusal(refusal, again) {
  const button = element("button", { type: "button", onclick: () => { hush(); again(); } }, "Try again");
  part("notice").replaceChildren(
    element("p", {}, element("strong", {}, refusal.title), ` ${refusal.advice}`),
    ...(refusal.passes ? [button] : []));
}
