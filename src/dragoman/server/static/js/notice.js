// What the page says: refusals where everybody sees them, and news for screen readers.
import { element, part } from "./dom.js";
import { Refusal } from "./refusal.js";

let before = null; // what had the focus when something was refused

export function say(text, language = "") {
  const news = part("news");
  news.replaceChildren(language ? element("span", { lang: language }, text) : text);
}

// Take a refusal away; who stood in it goes back to where it came from.
export function hush() {
  const within = part("notice").contains(document.activeElement);
  part("notice").replaceChildren();
  if (!within) return;
  before?.focus();
  if (document.activeElement === document.body) part("text").focus();
}

// again: what to do when somebody wants to try again, which is offered where that may help, or always. An error that is
// no refusal is a fault of the page, and goes on.
export function showRefusal(refusal, again, always = false) {
  if (!(refusal instanceof Refusal)) throw refusal;
  if (!part("notice").contains(document.activeElement)) before = document.activeElement;
  const button = element("button", { type: "button", onclick: () => { hush(); again(); } }, "Try again");
  part("notice").replaceChildren(
    element("p", {}, element("strong", {}, refusal.title), ` ${refusal.advice}`),
    ...(always || refusal.passes ? [button] : []));
}
