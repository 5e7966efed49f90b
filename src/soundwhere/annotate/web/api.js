// Talking to the server. Decisions are sent one after the other, each naming the revision it was made on.

let who = { name: "", token: "" };
export function signIn(name, token) { who = { name, token }; }

let pending = 0;
let onBusy = () => {};
export function watchBusy(callback) { onBusy = callback; }

export class Refused extends Error {
  constructor(status, answer) { super(answer.error || "The server refused."); this.status = status; this.remedy = answer.remedy || ""; this.view = answer.view; }
}

/** Ask the server; JSON unless `raw`. Throws Refused when it says no, TypeError when it cannot be reached. */
export async function ask(path, body, { raw = false, quiet = false } = {}) {
  if (!quiet) onBusy(++pending);
  try {
    const headers = { "X-Annotator": encodeURIComponent(who.name) };
    if (who.token) headers.Authorization = "Bearer " + who.token;
    const options = { headers };
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      Object.assign(options, { method: "POST", body: JSON.stringify(body), keepalive: JSON.stringify(body).length < 60000 });
    }
    const answer = await fetch(path, options);
    if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
    return raw ? await answer.blob() : await answer.json();
  } finally { if (!quiet) onBusy(--pending); }
}

/** Sends decisions in order. A lost connection is tried again with the same name, so nothing is saved twice. */
export class Outbox {
  constructor({ onSaved, onConflict, onState }) {
    Object.assign(this, { onSaved, onConflict, onState });
    this.queue = []; this.running = false; this.revision = 0; this.task = 0;
  }
  begin(view) { this.task = view.task; this.revision = view.revision; this.queue = []; }
  get waiting() { return this.queue.length; }
  send(kind, more = {}) {
    const name = (crypto.randomUUID ? crypto.randomUUID() : String(Math.random()).slice(2) + Date.now());
    const done = new Promise((resolve) => this.queue.push({ kind, more, request: name, resolve }));
    this.run();
    return done;
  }
  async run() {
    if (this.running) return;
    this.running = true;
    while (this.queue.length) {
      const task = this.task, item = this.queue[0];
      this.onState("saving");
      try {
        const answer = await ask(`api/tasks/${task}/decisions`, { kind: item.kind, base: this.revision, request: item.request, ...item.more });
        this.revision = answer.view.revision;
        this.queue.shift(); item.resolve(true);
        this.onState(this.queue.length ? "saving" : "saved");
        this.onSaved(answer.view, this.queue.length === 0, item.kind);
      } catch (error) {
        if (error instanceof Refused) {
          const left = this.queue; this.queue = [];
          left.forEach((one) => one.resolve(false));
          this.onState("refused"); this.onConflict(error);
        } else {
          this.onState("lost");
          await new Promise((resolve) => setTimeout(resolve, 1000));
        }
      }
    }
    this.running = false;
  }
}
