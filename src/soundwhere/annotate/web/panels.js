// What stands around the picture: dialogs, progress, guidelines, toasts.

export const element = (id) => document.getElementById(id);
export const STATES = { open: "to do", all: "all frames", review: "review others'", todo: "untouched", begun: "begun", done: "done", unsure: "cannot tell", accepted: "accepted", excluded: "left out", reopened: "reopened" };

export function toast(text) {
  const place = element("toast");
  place.textContent = text; place.classList.add("on");
  clearTimeout(toast.timer); toast.timer = setTimeout(() => place.classList.remove("on"), 1600);
}

export function banner(text, note = false) {
  const place = element("banner");
  place.hidden = !text; place.textContent = text; place.classList.toggle("note", note);
}

const KEYS = [
  ["1 2 3", "choose a candidate: 1 has the best score"], ["N", "next box"], ["left click", "this belongs to the object"], ["right click", "this does not"],
  ["Space", "confirm the object, begin the next"], ["R", "reset the object"], ["C", "clear all objects"], ["Z / ⇧Z", "undo / redo"],
  ["→ or Enter", "frame is done, go on"], ["←", "go back"], ["X", "cannot tell, with a reason"], ["B / E", "brush / eraser"], ["[ ]", "brush size"],
  ["G", "polygon: click its corners, the right button takes away; Enter closes it, ⌫ drops a corner, Esc all"], ["D", "boxes: drag to draw, move or resize; ⇧ draws within another"], ["Del", "delete the box"],
  ["wheel, + −", "zoom"], ["drag", "pan"], ["0", "whole picture"], ["P", "play or pause the sound"], ["J", "jump to an id"],
  ["A / O", "review: accept / reopen"], ["Esc", "back to clicking"], ["?", "these keys"],
];

export function showKeys() {
  const dialog = element("keys");
  dialog.querySelector("table").replaceChildren(...KEYS.map(([key, what]) => {
    const row = document.createElement("tr");
    row.append(...[key, what].map((text, index) => {
      const cell = document.createElement("td");
      if (index) cell.textContent = text; else { const cap = document.createElement("kbd"); cap.textContent = text; cell.append(cap); }
      return cell;
    }));
    return row;
  }));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;  // not at its button
}

const REASONS = {
  unsure: ["The source is not in view", "Too dark or blurred to outline", "Several alike, any could be it", "The class does not fit the sound", "No sound can be heard"],
  reopen: ["Part of the source is missing", "Something else is marked too", "The player or hands are marked", "The wrong thing is marked", "It can be told what sounds", "It cannot be told what sounds"],
};

/** Ask for a reason; null if it was cancelled. */
export function askReason(kind) {
  const dialog = element("reason"), text = element("reason-text"), list = dialog.querySelector(".reasons");
  dialog.querySelector("h2").textContent = kind === "unsure" ? "Why can you not tell?" : "What should change?";
  text.value = "";
  list.replaceChildren(...REASONS[kind].map((reason, index) => {
    const button = document.createElement("button");
    button.type = "button"; button.innerHTML = "<kbd></kbd> <span></span>";
    button.querySelector("kbd").textContent = index + 1; button.querySelector("span").textContent = reason;
    button.onclick = () => { text.value = reason; dialog.close("ok"); };
    return button;
  }));
  dialog.returnValue = "cancel";
  dialog.onkeydown = (event) => { const button = list.children[Number(event.key) - 1]; if (button && event.target !== text) { event.preventDefault(); button.click(); } };
  dialog.showModal(); list.firstChild.focus();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? text.value.trim() : null), { once: true }));
}

/** The rules, with those that fit the class pointed out. */
export function showGuidelines(guidelines, kind) {
  const words = kind.toLowerCase().split(/[^a-z]+/);
  const parts = guidelines.flatMap(({ title, text, words: wanted }) => {
    const applies = wanted.some((word) => words.includes(word));
    const head = document.createElement("dt"), body = document.createElement("dd");
    head.textContent = title; body.textContent = text;
    for (const one of [head, body]) one.classList.toggle("applies", applies);
    return [head, body];
  });
  element("guidelines").querySelector("dl").replaceChildren(...parts);
}

export function showProgress({ states, annotators, working }) {
  const total = Object.values(states).reduce((a, b) => a + b, 0), finished = states.done + states.accepted + states.unsure + states.excluded;
  element("progress").firstElementChild.style.width = `${100 * finished / Math.max(1, total)}%`;
  element("progress").title = `${finished} of ${total} frames`;
  const shown = Object.entries(states).filter(([, count]) => count).map(([state, count]) => {
    const span = document.createElement("span"), number = document.createElement("b");
    number.textContent = count; span.append(number, ` ${STATES[state]}`); return span;
  });
  element("counts").querySelector(".states").replaceChildren(...shown);
  const rows = [["name", "frames", "objects", "reviews"], ...annotators.map((one) => [one.annotator + (working.includes(one.annotator) ? " •" : ""), one.frames, one.objects, one.reviews])];
  element("counts").querySelector("table").replaceChildren(...rows.map((cells, index) => {
    const row = document.createElement("tr");
    row.append(...cells.map((text) => { const cell = document.createElement(index ? "td" : "th"); cell.textContent = text; return cell; }));
    return row;
  }));
}

/** So many frames that two people annotated, in words. */
export const doubly = (frames) => `${frames} doubly annotated ${frames === 1 ? "frame" : "frames"}`;

export function showAgreement({ frames, mean, median }) {
  element("agreement").textContent = frames ? `Agreement on ${doubly(frames)}: mask IoU ${mean.toFixed(2)} (median ${median.toFixed(2)})` : "";
}
