// The annotation page: one frame at a time, every decision sent at once.

import { ask, Outbox, Refused, watchBusy } from "./api.js";
import { DRAFT, OBJECT, tinted } from "./masks.js";
import { askReason, banner, element, showAgreement, showGuidelines, showKeys, showProgress, STATES, toast } from "./panels.js";
import { Stage } from "./stage.js";
import { arrive, leave } from "./who.js";

const NONE = { box: null, candidate: null, points: [], strokes: [] };
let session, view = null, draft = { ...NONE }, mask = null, objects = [], doubts = [], candidates = null, proposedFor = "", box = 0, image = null, url = "", soundUrl = "", opened = 0;

const stage = new Stage(element("stage"), {
  point: addPoint, paint: addStroke, boxes: { change: changeBoxes, select: (index) => { box = index; show(); } }, polygon: { finish: addStroke, say: toast },
});
const outbox = new Outbox({ onSaved: saved, onConflict: conflict, onState: saving });
watchBusy((count) => { element("busy").hidden = !count; });

const reviewing = () => element("mode").value === "review";
const readOnly = () => !view || Boolean(view.holder) || reviewing();
const hasDraft = () => draft.candidate !== null || draft.points.length > 0 || draft.strokes.length > 0;

// Decisions

function prompt(change) {
  if (blocked()) return;
  draft = { ...NONE, ...draft, ...change }; doubts = [];
  outbox.send("prompt", { prompts: draft });
  show();
}
function choose(index) {
  const three = candidates && candidates[box];
  if (!three) { toast(view && view.frame.boxes.length ? "the candidates are still being made" : "this frame has no box: click the object"); return; }
  if (blocked()) return;
  mask = three[index].mask;
  prompt({ box, candidate: index, points: [], strokes: [] });
}
function addPoint(point) { prompt({ points: [...(draft.points || []), point] }); }
function changeBoxes(boxes, index) {
  if (blocked()) return;
  view.frame.boxes = boxes; box = Math.max(0, Math.min(index, boxes.length - 1)); candidates = null;
  if (draft.candidate !== null) { draft = { ...NONE }; mask = null; }  // it was a candidate for the box as it was
  outbox.send("boxes", { boxes });
  show();
}
function unbox() {
  if (blocked() || !view.frame.boxes.length) return;
  changeBoxes(view.frame.boxes.filter((_, index) => index !== box), box);
  toast("box deleted: Z brings it back");
}
function addStroke(stroke) { prompt({ strokes: [...(draft.strokes || []), stroke] }); }
function blocked() {
  if (!view) return true;
  if (view.holder) toast(`${view.holder} is working on this frame`);
  else if (reviewing()) toast("review: A accepts, O reopens");
  else if (["accepted", "excluded"].includes(view.state)) toast("accepted: a reviewer must reopen it first");
  else return false;
  return true;
}
function confirm() {
  if (blocked()) return;
  if (stage.tools.polygon.open) { toast("Enter closes the polygon first, Esc drops it"); return; }
  if (!hasDraft()) { toast("choose 1, 2 or 3, or click the object first"); return; }
  outbox.send("object");
  if (mask && !draft.points.length && !draft.strokes.length) objects.push(mask);  // else it comes with the answer
  toast(`object ${view.objects.length + 1} confirmed`);
  if (draft.box !== null && view.frame.boxes.length > 1) box = (box + 1) % view.frame.boxes.length;
  draft = { ...NONE }; mask = null; doubts = [];
  show();
}
function reset() { if (!blocked() && hasDraft()) { mask = null; draft = { ...NONE }; outbox.send("prompt", { prompts: draft }); show(); } }
function clear() { if (!blocked() && (objects.length || hasDraft())) { objects = []; mask = null; draft = { ...NONE }; outbox.send("clear"); show(); toast("cleared: Z brings it back"); } }
function undo() { if (!blocked()) outbox.send("undo"); }
function redo() { if (!blocked()) outbox.send("redo"); }
async function unsure() {
  if (blocked()) return;
  const reason = await askReason("unsure");
  if (reason !== null && await outbox.send("unsure", { reason })) move(false);
}
async function accept() { if (view && reviewing() && await outbox.send("accept")) { toast("accepted"); move(false); } }
async function reopen() {
  if (!view || !reviewing()) return;
  const reason = await askReason("reopen");
  if (reason !== null && await outbox.send("reopen", { reason })) { toast("reopened"); move(false); }
}
async function next() {
  if (!view) { move(false); return; }
  if (stage.tools.polygon.open) { stage.tools.polygon.close(); return; }
  if (!readOnly() && hasDraft()) { toast("Space confirms the object first; R drops it"); return; }
  if (!readOnly() && !["accepted", "excluded", "done"].includes(view.state) && (objects.length || view.objects.length)) {
    if (!await outbox.send("done")) return;
  }
  move(false);
}

// What the server says

function saved(answer, last, kind) {
  if (!view || answer.task !== view.task) return;
  view = { ...answer, holder: view.holder };
  if (last) adopt();
  if (["object", "done", "unsure", "accept", "reopen", "undo", "redo", "clear"].includes(kind)) refreshCounts();
}
function adopt() {
  draft = { ...NONE, ...view.draft }; mask = view.mask; objects = [...view.objects]; doubts = view.doubts;
  if (draft.box !== null) box = draft.box;
  box = Math.max(0, Math.min(box, view.frame.boxes.length - 1));
  show();
  if (image && proposedFor !== boxesKey()) propose(opened);
}
function conflict(error) {
  if (error.view) { view = { ...error.view, holder: view ? view.holder : "" }; outbox.revision = view.revision; adopt(); }
  if (/changed this frame|working on/.test(error.message)) banner(`${error.message} ${error.remedy}`);
  else toast(error.message);
  if (!error.view && view && error.status < 500) open(view.task);  // show what is there, not what was refused
}
function saving(state) {
  const place = element("saved");
  place.textContent = { saving: "saving", saved: "saved", refused: "not saved", lost: "no connection, trying again" }[state];
  place.className = "pill " + ({ saved: "good", refused: "bad", lost: "bad" }[state] || "");
}

// Frames

async function move(back) {
  const ticket = ++opened;
  await idle();
  const step = { after: view ? view.task : 0, back, kind: element("class").value, state: back && element("mode").value === "open" ? "all" : element("mode").value };
  release();
  try {
    const found = await ask("api/next", step);
    if (ticket !== opened) { if (!found.none) giveBack(found.task); }  // something else was asked for meanwhile
    else if (found.none) nothing(found.busy);
    else await present(found);
  } catch (error) { complain(error); }
}
function giveBack(task) { if (!view || view.task !== task) ask(`api/tasks/${task}/release`, {}, { quiet: true }).catch(() => {}); }
function release() { if (view && !view.holder) ask(`api/tasks/${view.task}/release`, {}, { quiet: true }).catch(() => {}); }
async function idle() { while (outbox.waiting) await new Promise((resolve) => setTimeout(resolve, 20)); }
async function open(task) {
  await idle();
  release();
  try { await present(await ask(`api/tasks/${task}/open`, {})); } catch (error) { complain(error); }
}
/** The end: no frame, and nothing left to press that would need one. */
function nothing(busy) {
  const mode = element("mode").value, kind = element("class").value;
  view = null; image = null; candidates = null; proposedFor = ""; mask = null; objects = []; doubts = []; draft = { ...NONE };
  stage.show(null, [1, 1]); stage.boxes = []; stage.points = []; stage.layers = []; stage.draft = null;
  element("sound").pause(); element("sound").removeAttribute("src"); banner("");
  history.replaceState(null, "", location.pathname);
  for (const id of ["name", "state", "saved", "boxes", "objects"]) element(id).textContent = "";
  element("doubts").hidden = true; element("toast").classList.remove("on");
  const what = kind ? `“${kind}”` : "frame";
  element("kind").textContent = reviewing() ? "Nothing to review" : mode === "open" || mode === "all" ? busy ? "Nothing free now" : kind ? "Class done" : "You are done" : "Nothing here";
  element("end").textContent = busy ? `${busy} ${busy === 1 ? "frame is" : "frames are"} with others now, or need another person. Look again later.`
    : reviewing() ? `No ${what} of others waits for a review.` : mode === "open" ? `No ${what} is left for you to do.` : `No ${what} is “${STATES[mode]}”.`;
  element("to-review").hidden = session.role === "annotator" || reviewing();
  element("empty").hidden = false; document.querySelector("main").classList.add("ended");
  refreshCounts();
}
async function present(found) {
  const ticket = ++opened;
  view = found; box = 0; candidates = null; proposedFor = ""; image = null;
  document.querySelector("main").classList.remove("ended");
  outbox.begin(view); banner(view.holder ? `${view.holder} is working on this frame. You can look at it.` : "", true);
  element("empty").hidden = true; element("saved").textContent = "";
  location.replace("#frame=" + encodeURIComponent(view.frame.name));
  stage.show(null, view.frame.size);
  adopt(); showGuidelines(session.guidelines, view.frame.kind); refreshCounts();
  const [picture] = await Promise.all([ask(`api/frames/${view.frame.id}/picture`, undefined, { raw: true }), loadSound(ticket)]);
  if (ticket !== opened) return;
  if (url) URL.revokeObjectURL(url);
  url = URL.createObjectURL(picture);
  const loaded = new Image(); loaded.src = url; await loaded.decode();
  if (ticket !== opened) return;
  image = loaded; stage.show(image, view.frame.size); show();
  await propose(ticket);
}
const boxesKey = () => JSON.stringify([view.task, view.frame.boxes]);
async function propose(ticket) {
  const wanted = boxesKey(), current = () => ticket === opened && view && wanted === boxesKey();
  proposedFor = wanted; candidates = null; drawStrip();
  try {
    const found = await ask(`api/tasks/${view.task}/candidates`);
    if (current() && found.candidates.length === view.frame.boxes.length) { candidates = found.candidates; show(); }
  } catch (error) { if (current()) complain(error); }
}
async function loadSound(ticket) {
  const sound = element("sound"), has = view.frame.sound, goesOn = !sound.paused;
  sound.hidden = !has; element("silent").hidden = has;
  sound.pause();
  if (!has) return;
  const blob = await ask(`api/frames/${view.frame.id}/sound`, undefined, { raw: true }).catch(() => null);
  if (!blob || ticket !== opened) return;
  if (soundUrl) URL.revokeObjectURL(soundUrl);
  soundUrl = URL.createObjectURL(blob);
  sound.src = soundUrl;
  if (goesOn) sound.play().catch(() => {});
}
function complain(error) {
  if (error instanceof Refused && error.status === 401) { leave(); banner(error.message); }
  else banner(error instanceof Refused ? `${error.message} ${error.remedy}` : "The server cannot be reached. Reload the page when it is back; everything confirmed is kept.");
}

// Showing

function show() {
  if (!view) return;
  element("kind").textContent = view.frame.kind;
  element("name").textContent = view.frame.name + (view.second ? " · second pass" : "");
  element("state").textContent = STATES[view.state] + (view.reason ? `: ${view.reason}` : "");
  stage.layers = objects.map((one) => tinted(one, OBJECT));
  stage.draft = mask ? tinted(mask, DRAFT) : null;
  stage.points = draft.points || []; stage.boxes = view.frame.boxes; stage.box = box;
  stage.draw();
  const odd = mask ? doubts : view.object_doubts.slice(0, objects.length).flat();
  element("doubts").hidden = !odd.length; element("doubts").textContent = odd.join(" · ");
  element("boxes").replaceChildren(...view.frame.boxes.map((_, index) => {
    const button = document.createElement("button");
    button.textContent = `box ${index + 1}`; button.classList.toggle("on", index === box); button.setAttribute("aria-pressed", index === box);
    button.onclick = () => { box = index; show(); };
    return button;
  }));
  if (!view.frame.boxes.length) element("boxes").textContent = "none: click the object, or draw one";
  element("objects").replaceChildren(...objects.map((_, index) => {
    const span = document.createElement("span"); span.className = "object"; span.textContent = `object ${index + 1}`;
    const why = view.object_doubts[index] || [];
    if (why.length) { span.classList.add("odd"); span.title = why.join(" · "); span.append(" ⚠"); }
    return span;
  }));
  if (!objects.length) element("objects").textContent = "none yet";
  document.querySelector("main").classList.toggle("reviewing", reviewing());
  element("actions").hidden = reviewing(); element("review").hidden = !reviewing();
  const enabled = { confirm: hasDraft(), undo: view.undoable, redo: view.redoable, reset: hasDraft(), clear: objects.length || hasDraft(), unbox: view.frame.boxes.length };
  for (const [action, on] of Object.entries(enabled)) document.querySelector(`[data-action=${action}]`).disabled = !on || readOnly();
  drawStrip();
}
function drawStrip() {
  const figures = [...element("strip").children], three = candidates && candidates[box];
  figures.forEach((figure, index) => {
    const canvas = figure.querySelector("canvas"), context = canvas.getContext("2d");
    const [rows, columns] = view ? view.frame.size : [1, 1];
    const height = Math.min(rows, 400); canvas.height = height; canvas.width = Math.round(columns * height / rows);
    if (image) context.drawImage(image, 0, 0, canvas.width, canvas.height);
    if (!index) return;
    figure.disabled = !three;
    figure.classList.toggle("on", draft.candidate === index - 1 && draft.box === box);
    figure.classList.toggle("waiting", Boolean(view && view.frame.boxes.length && !three));
    figure.querySelector("span").textContent = three ? three[index - 1].score.toFixed(2) : view && view.frame.boxes.length ? "working" : "";
    if (!three || !image) return;
    context.globalAlpha = 0.75;
    three[index - 1].picture ||= tinted(three[index - 1].mask, DRAFT);
    context.drawImage(three[index - 1].picture, 0, 0, canvas.width, canvas.height);
    context.globalAlpha = 1;
    const [left, top, right, bottom] = view.frame.boxes[box].map((value) => value * height / rows);
    context.strokeStyle = "#fff"; context.lineWidth = 2; context.strokeRect(left, top, right - left, bottom - top);
  });
}
async function refreshCounts() {
  clearTimeout(refreshCounts.timer);
  refreshCounts.timer = setTimeout(async () => {
    try { showProgress(await ask("api/progress", undefined, { quiet: true })); showAgreement(await ask("api/agreement", undefined, { quiet: true })); } catch { /* shown by the next action */ }
  }, 300);
}
function tool(name) {
  stage.tool = name;
  for (const button of document.querySelectorAll("[data-tool]")) { button.classList.toggle("on", button.dataset.tool === name); button.setAttribute("aria-pressed", button.dataset.tool === name); }
  stage.tools.polygon.clear(); stage.tools.box.cancel();
  stage.draw();
}

// Keys, buttons, lists

const ACTIONS = { confirm, next, undo, redo, reset, clear, back: () => move(true), unsure, accept, reopen, unbox, again: () => move(false), review: () => setMode("review") };
function setMode(mode) { element("mode").value = mode; leaveFrame(); move(false); }
function leaveFrame() { release(); view = null; candidates = null; drawStrip(); }
function escape() { const { polygon } = stage.tools; if (polygon.open) { polygon.clear(); stage.draw(); } else tool("add"); }
function remove() { const { polygon } = stage.tools; if (polygon.open) { polygon.back(); stage.draw(); } else if (stage.tool === "box") unbox(); }
function brush(change) { const size = element("size"); size.value = Number(size.value) + change; stage.brush = Number(size.value); stage.draw(); }
function play() {
  if (!view) return; const sound = element("sound"); if (sound.paused) sound.play().catch(() => {}); else sound.pause(); }

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.altKey || (event.metaKey || event.ctrlKey) && event.key.toLowerCase() !== "z") return;
  if (["INPUT", "SELECT"].includes(event.target.tagName) && event.target.type !== "range") return;
  if (event.target.type === "range" && event.key.startsWith("Arrow") || event.target.closest("button, a") && [" ", "Enter"].includes(event.key)) return;  // their own
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const keys = {
    1: () => choose(0), 2: () => choose(1), 3: () => choose(2), " ": confirm, r: reset, c: clear, x: unsure,
    z: () => (event.shiftKey ? redo() : undo()), ArrowRight: next, Enter: next, ArrowLeft: () => move(true), "?": showKeys,
    b: () => tool("brush"), e: () => tool("eraser"), d: () => tool("box"), g: () => tool("polygon"), Backspace: remove, Delete: remove, Escape: escape, 0: () => stage.fit(), "+": () => stage.zoom(1.3), "=": () => stage.zoom(1.3), "-": () => stage.zoom(1 / 1.3),
    "[": () => brush(-2), "]": () => brush(2), p: play, j: () => element("jump").focus(),
    n: () => { if (view && view.frame.boxes.length) { box = (box + 1) % view.frame.boxes.length; show(); } },
    a: () => (reviewing() ? accept() : tool("add")), o: reopen,
  };
  if (!keys[key] || event.repeat && !["z", "[", "]", "+", "-"].includes(key)) return;
  event.preventDefault(); keys[key]();
});
function yieldFocus(event) { if (event.detail) event.currentTarget.blur(); }  // after a click Space confirms; who came by Tab stays
document.querySelectorAll("[data-action]").forEach((button) => { button.onclick = (event) => { yieldFocus(event); ACTIONS[button.dataset.action](); }; });
document.querySelectorAll("[data-tool]").forEach((button) => { button.onclick = (event) => { yieldFocus(event); tool(button.dataset.tool); }; });
document.querySelectorAll("[data-candidate]").forEach((button) => { button.onclick = (event) => { yieldFocus(event); choose(Number(button.dataset.candidate)); }; });
element("size").oninput = (event) => { stage.brush = Number(event.target.value); stage.draw(); };
element("opacity").oninput = (event) => { stage.opacity = event.target.value / 100; stage.draw(); };
element("fit").onclick = () => stage.fit();
element("help").onclick = showKeys;
element("sound").onplay = () => element("sound").blur();  // so that Space confirms
element("filters").onsubmit = (event) => event.preventDefault();
for (const id of ["mode", "class"]) element(id).onchange = (event) => { event.target.blur(); leaveFrame(); move(false); };
let listing = Promise.resolve([]);
element("jump").onfocus = () => {
  listing = ask("api/tasks?state=all").catch(() => []);
  listing.then((list) => element("ids").replaceChildren(...list.slice(0, 500).map((one) => new Option(`${one.kind} · ${one.state}`, one.name))));
};
element("jump").onchange = async () => {
  const wanted = element("jump").value.trim(), list = await listing;
  const found = list.find((one) => one.name === wanted) || list.find((one) => wanted && one.name.startsWith(wanted));
  if (found) { element("jump").value = ""; element("jump").blur(); open(found.id); } else if (wanted) toast(`no frame ${wanted}`);
};
addEventListener("beforeunload", (event) => { if (outbox.waiting) event.preventDefault(); });
addEventListener("pagehide", () => { if (!outbox.waiting) release(); });
setInterval(() => { if (view && !view.holder && !document.hidden) ask(`api/tasks/${view.task}/renew`, {}, { quiet: true }).catch((error) => { if (error instanceof Refused) banner(`${error.message} ${error.remedy}`); }); }, 60000);

async function begin() {
  await arrive();
  try { session = await ask("api/session"); } catch (error) { complain(error); return; }
  element("who").textContent = session.annotator; element("home").href = session.home; element("who").title = `${session.role} of ${session.project} · ${session.segmenter} · soundwhere ${session.version}`;
  element("mode").replaceChildren(...["open", "all", ...(session.role === "annotator" ? [] : ["review"]), ...session.states].map((state) => new Option(STATES[state], state)));
  element("class").replaceChildren(new Option("all classes", ""), ...session.kinds.map((kind) => new Option(kind, kind)));
  tool("add");
  const asked = new URLSearchParams(location.hash.slice(1)), wanted = asked.get("frame"), mode = asked.get("mode");
  if (mode && [...element("mode").options].some((option) => option.value === mode)) element("mode").value = mode;
  if (/^\d+$/.test(asked.get("task") || "")) {
    await open(asked.get("task"));
    if (view) return;
    const why = element("banner").textContent;
    await move(false); banner(why);
    return;
  }
  if (wanted) { const found = (await ask("api/tasks?state=all")).find((one) => one.name === wanted); if (found) { await open(found.id); return; } }
  await move(false);
}
begin();
