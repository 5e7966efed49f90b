// Who is at the page: from the link with a token, from before, or asked for.

import { signIn } from "./api.js";

export async function arrive() {
  const [, name, token] = /^#([^:=]+):(.+)$/.exec(location.hash) || [];
  if (token) {
    sessionStorage.setItem("who", JSON.stringify({ name: decodeURIComponent(name), token }));
    history.replaceState(null, "", location.pathname);  // the token leaves the address bar
  }
  let who = JSON.parse(sessionStorage.getItem("who") || "null");
  if (!who) { who = { name: await askName(), token: "" }; sessionStorage.setItem("who", JSON.stringify(who)); }
  signIn(who.name, who.token);
  return who;
}
export function leave() { sessionStorage.removeItem("who"); }

function askName() {
  const dialog = document.getElementById("login");
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(document.getElementById("login-name").value.trim()), { once: true }));
}
