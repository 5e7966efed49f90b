// The overview: how every project stands that this person may see, what to review first, and who may do what.

import { ask, Refused } from "./api.js";
import { banner, doubly, element, STATES } from "./panels.js";
import { arrive, leave } from "./who.js";

const FINISHED = ["accepted", "done", "excluded", "unsure"];
let who;

/** An element with its text or children. */
function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
function table(caption, head, rows) {
  const cells = (kind, row) => make("tr", {}, ...row.map((cell) => make(kind, kind === "th" ? { scope: "col" } : {}, cell ?? "")));
  const made = make("table", {}, make("caption", {}, caption), make("thead", {}, cells("th", head)), make("tbody", {}, ...rows.map((row) => cells("td", row))));
  const box = make("div", { className: "scroll", tabIndex: 0, role: "region" }, made);
  box.setAttribute("aria-label", caption);
  return box;
}
const sum = (states, names = Object.keys(states)) => names.reduce((all, name) => all + states[name], 0);
function bar(states) {
  const total = Math.max(1, sum(states)), parts = FINISHED.map((name) => { const part = make("i", { className: name }); part.style.width = `${100 * states[name] / total}%`; return part; });
  const made = make("div", { className: "bar", title: `${sum(states, FINISHED)} of ${sum(states)} finished` }, ...parts);
  made.setAttribute("role", "img"); made.setAttribute("aria-label", made.title);
  return made;
}
const share = (value) => (value === null || value === undefined ? "" : value.toFixed(2));
const when = (seconds) => (seconds ? new Date(1000 * seconds).toLocaleString([], { dateStyle: "short", timeStyle: "short" }) : "");

function describe({ name, path }, found) {
  const place = `../${path}`, { states, agreement } = found;
  const section = make("section", { className: "card project" }, make("h2", {}, name), bar(states));
  const links = make("p", {}, make("a", { href: place }, "annotate"));
  if (found.role !== "annotator") links.append(" · ", make("a", { href: `${place}#mode=review` }, `review (${found.to_review})`));
  links.append(` · you are ${found.role} here`);
  const counts = Object.entries(states).filter(([, count]) => count).map(([state, count]) => `${count} ${STATES[state]}`).join(", ");
  section.append(make("p", {}, `${sum(states, FINISHED)} of ${sum(states)} finished: ${counts || "no frames"}`), links);
  section.append(make("p", {}, agreement.frames ? `Agreement on ${doubly(agreement.frames)}: mask IoU ${share(agreement.mean)} (median ${share(agreement.median)}), above 0.7 in ${Math.round(100 * agreement.share_over_0_7)} %` : "No frame was annotated by two people yet."));
  if (found.review.length) section.append(table(`To review, the most doubtful first (${found.review.length} of ${found.to_review})`, ["frame", "class", "by", "why"], found.review.map((one) => [
    make("a", { href: `${place}#task=${one.task}&mode=review` }, one.name + (one.second ? " · second pass" : "")), one.kind, one.annotator, one.why.join(" · "),
  ])));
  section.append(table("Classes", ["class", "progress", "finished", "done", "accepted", "cannot tell", "left out", "to do"], found.kinds.map(({ kind, states: of }) => [
    kind, bar(of), `${sum(of, FINISHED)} of ${sum(of)}`, of.done, of.accepted, of.unsure, of.excluded, of.todo + of.begun + of.reopened,
  ])));
  section.append(table(found.role === "annotator" ? "You" : "People", ["name", "role", "frames", "objects", "reviews", "agreement", "last decision"], found.people.map((one) => [
    one.annotator + (found.working.includes(one.annotator) ? " (working now)" : ""), one.role, one.frames, one.objects, one.reviews, share(one.agreement), when(one.last),
  ])));
  return section;
}

async function people(place, section) {
  const { people: list, roles } = await ask(`${place}api/people`);
  const host = make("div", { className: "people" });
  section.append(host);
  if (!list.length) { host.append(make("p", { className: "soft" }, "Nobody has a token: whoever is on this machine may do everything. Invite an owner with: soundwhere annotate PROJECT --invite NAME --role owner")); return; }
  const choice = (role, label) => { const made = make("select", {}, ...roles.map((one) => new Option(one, one))); made.value = role; made.setAttribute("aria-label", label); return made; };
  const act = async (path, body) => { try { const answer = await ask(`${place}api/people/${path}`, body); banner(""); return answer; } catch (error) { complain(error); return null; } };
  const rows = list.map(({ name, role }) => {
    if (name === who.name) return [name, role, ""];
    const select = choice(role, `role of ${name}`), remove = make("button", {}, "remove");
    select.onchange = async () => { if (!await act("role", { name, role: select.value })) select.value = role; else refresh(); };
    remove.setAttribute("aria-label", `remove ${name}`);
    remove.onclick = async () => { if (confirm(`Take ${name}’s token away? What they decided stays.`) && await act("remove", { name })) refresh(); };
    return [name, select, remove];
  });
  const name = make("input", { placeholder: "name", maxLength: 40, required: true }), role = choice("annotator", "role"), link = make("output", {});
  name.setAttribute("aria-label", "name to invite");
  const form = make("form", {}, name, " ", role, " ", make("button", { className: "main" }, "invite"), link);
  form.onsubmit = async (event) => {
    event.preventDefault();
    const answer = await act("invite", { name: name.value.trim(), role: role.value });
    if (!answer) return;
    const address = new URL(`../${answer.door}`, location.href).href;
    await refresh();
    banner(`The link for ${answer.name} (${answer.role}), shown this once: ${address}`, true);
  };
  host.append(table("Who may come in", ["name", "role", "token"], rows), form);
}

function complain(error) {
  if (error instanceof Refused && error.status === 401) leave();
  banner(error instanceof Refused ? `${error.message} ${error.remedy}` : "The server cannot be reached. Reload the page when it is back.");
}
async function refresh() {
  try {
    const sections = await Promise.all((await ask("../api/projects")).map(async (project) => {
      const found = await ask(`../${project.path}api/overview`), section = describe(project, found);
      if (found.role === "owner") await people(`../${project.path}`, section);
      return section;
    }));
    element("projects").replaceChildren(...sections);
  } catch (error) { complain(error); }
}

who = await arrive();
element("who").textContent = who.name;
element("refresh").onclick = () => { banner(""); refresh(); };
await refresh();
