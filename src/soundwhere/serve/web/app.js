/* The page: clips come in by dropping, choosing or picking; jobs are watched; a finished one is played.
 * The address says which clip is open (#ID), so a reload finds it again. */
"use strict";

(function (own) {
  var SOON_MS = 400, LATER_MS = 4000, MANY = 8;
  var make = own.element, server = own.server;
  function at(id) { return document.getElementById(id); }
  var session = { limit_bytes: Infinity }, jobs = [], uploads = [], clips = [], player = null, shown = "", timer = 0;

  // Which clip is open

  function open() { return location.hash.slice(1); }

  function show(view) {
    if (at(view).hidden && view !== "library") scrollTo(0, 0); // what was further down the list begins at its top, too
    ["library", "progress", "player"].forEach(function (id) { at(id).hidden = id !== view; });
    document.body.classList.toggle("playing", view === "player");
    if (view !== "player" && player) {
      player.close();
      player = null;
      shown = "";
    }
  }

  function render() {
    var id = open(), job = jobs.find(function (job) { return job.id === id; });
    var upload = uploads.find(function (upload) { return upload.id === id; });
    at("title").textContent = job ? job.name : "";
    at("title").hidden = !job; // a heading says something
    at("facts").textContent = player && job ? player.data.facts : "";
    at("model").textContent = player && job ? player.data.model : session.model || "";
    if (session.model && at("set-model").options.length) at("set-model").options[0].text = "as usual: " + session.model;
    document.title = (job ? job.name + " · " : "") + "soundwhere";
    if (job && job.state === "done") play(job);
    else if (job || upload) {
      show("progress");
      renderProgress(job || upload);
    } else {
      show("library");
      renderCards();
    }
  }

  async function play(job) {
    if (shown === job.id) return;
    if (player) player.close();
    player = null;
    shown = job.id;
    try {
      var data = await server.player(job.id);
      if (shown !== job.id || open() !== job.id) return;
      show("player");
      player = new own.Player(at("player"), data);
      render();
    } catch (error) {
      if (shown === job.id) shown = "";
      show("progress");
      renderProgress(Object.assign({}, job, { state: "failed", error: error.message, remedy: error.remedy || "" }));
    }
  }

  // How a job goes

  function words(job) {
    if (job.state === "uploading") return "Uploading " + own.size(job.done) + " of " + own.size(job.total);
    if (job.state === "waiting") return job.before ? "Waiting for " + job.before + (job.before > 1 ? " other clips" : " other clip") : "About to start";
    if (job.state === "cancelled") return "Cancelled";
    if (job.state === "failed") return job.error;
    if (job.state === "done") return new Date(job.created_s * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    if (job.stage === "localising") return "Localising: " + job.done + " of " + job.total + " frames";
    if (job.stage === "writing") return "Writing the overlay: " + job.done + " of " + job.total + " frames";
    return "Opening the clip";
  }

  /** The share that is done; null if nobody knows. Localising and writing take about as long as each other. */
  function share(job) {
    if (job.state === "uploading") return job.total ? job.done / job.total : null;
    if (job.state !== "working" || !job.stage || !job.total) return null;
    return (job.stage === "writing" ? 0.5 : 0) + (0.5 * job.done) / job.total;
  }

  function going(job) { return ["uploading", "waiting", "working"].includes(job.state); }

  /** What can be tried again: a job that is over without a result, an upload that failed. */
  function over(job) { return job.state === "failed" || job.state === "cancelled"; }

  function fill(rail, bar, job) {
    var part = share(job);
    if (part === null) rail.removeAttribute("aria-valuenow"); else rail.setAttribute("aria-valuenow", String(Math.round(100 * part)));
    rail.hidden = !going(job);
    rail.classList.toggle("unsure", part === null && job.state === "working");
    bar.style.width = part === null ? "" : 100 * part + "%";
  }

  function renderProgress(job) {
    var box = document.querySelector(".doing");
    box.className = "doing " + job.state;
    at("doing-name").textContent = job.name;
    if (at("doing-text").textContent !== words(job)) at("doing-text").textContent = words(job);
    at("doing-remedy").textContent = job.remedy || "";
    at("doing-remedy").hidden = !job.remedy;
    at("doing-act").textContent = going(job) ? "Cancel" : "Remove";
    at("doing-act").onclick = function () { end(job); };
    at("doing-again").hidden = !over(job);
    at("doing-again").onclick = function () { again(job); };
    at("doing-rail").style.setProperty("--whole", at("doing-rail").clientWidth + "px");
    fill(at("doing-rail"), at("doing-bar"), job);
  }

  /** Cancel what is going on, remove what is over. */
  async function end(job) {
    try {
      if (job.state === "uploading") job.abort();
      else if (uploads.includes(job)) uploads.splice(uploads.indexOf(job), 1); // one that failed
      else if (going(job)) await server.cancel(job.id);
      else {
        await server.remove(job.id);
      }
      if (!going(job) && open() === job.id) location.hash = "";
    } catch (error) {
      if (error.status !== 404) alert(error.message);
    }
    await refresh();
  }

  async function again(job) {
    try {
      if (uploads.includes(job)) {
        uploads.splice(uploads.indexOf(job), 1);
        queue(job.files, job.batch, open() === job.id);
      } else await server.retry(job.id);
    } catch (error) {
      alert(error.message);
    }
    await refresh();
  }

  // All clips

  function card(job) {
    var done = job.state === "done";
    var picture = make("div", { class: "picture" }, done ? [make("img", { src: "/api/jobs/" + job.id + "/picture", alt: "", loading: "lazy" })] : []);
    var state = make("span", { class: "state" }), remedy = make("p", { class: "remedy" });
    var bar = make("i"), rail = make("div", { class: "rail", role: "progressbar", "aria-label": "How far " + job.name + " is", "aria-valuemin": "0", "aria-valuemax": "100" }, [bar]), button = make("button", { type: "button", class: "end" }, ["×"]);
    var retry = make("button", { type: "button", class: "plain-button again" }, ["Try again"]);
    var item = make("li", { "data-id": job.id }, [
      picture,
      make("div", { class: "words" }, [make("b", {}, [make("a", { href: "#" + job.id, title: job.name }, [job.name])]), state, remedy, retry]),
      button, rail,
    ]);
    item.show = function (now) {
      item.className = "card " + now.state;
      state.textContent = words(now);
      remedy.textContent = now.remedy || "";
      remedy.hidden = !now.remedy;
      var label = (going(now) ? "Cancel " : "Remove ") + now.name;
      button.setAttribute("aria-label", label);
      button.title = label;
      button.onclick = function () { end(now); };
      retry.hidden = !over(now);
      retry.setAttribute("aria-label", "Try again: " + now.name);
      retry.onclick = function () { again(now); };
      fill(rail, bar, now);
    };
    return item;
  }

  /** Cards stay the same elements while their jobs go on, so that focus and hover stay, too. */
  function renderCards() {
    var list = at("cards"), all = uploads.concat(jobs), before = {};
    Array.from(list.children).forEach(function (item) { before[item.dataset.id + item.dataset.done] = item; });
    var items = all.map(function (job) {
      var done = String(job.state === "done"), item = before[job.id + done] || card(job);
      item.dataset.done = done;
      item.show(job);
      return item;
    });
    if (items.length !== list.children.length || items.some(function (item, place) { return list.children[place] !== item; })) list.replaceChildren.apply(list, items);
    at("mine").hidden = !all.length;
  }

  function renderClips() {
    var wanted = at("search").value.trim().toLowerCase();
    var found = clips.filter(function (clip) { return clip.name.toLowerCase().includes(wanted); });
    at("clips").replaceChildren.apply(at("clips"), found.map(function (clip) {
      return make("li", {}, [make("button", { type: "button", onclick: function () { pick(clip); } }, [
        make("span", {}, [clip.name]), make("small", {}, [own.size(clip.bytes)]),
      ])]);
    }));
    if (!found.length) at("clips").append(make("li", {}, [make("p", {}, [clips.length ? "No clip has that name." : "No videos here yet."])]));
  }

  // Clips come in

  /** What was chosen about how clips are localised; nothing where it is as usual. */
  function options() {
    var all = { model: at("set-model").value, fps: at("set-fps").valueAsNumber || "", sources: at("set-sources").value }, given = {};
    Object.keys(all).forEach(function (name) { if (all[name]) given[name] = all[name]; });
    return given;
  }

  function showOptions() {
    var given = options(), parts = [];
    if (given.model) parts.push(given.model);
    if (given.fps) parts.push(given.fps + " frames a second");
    if (given.sources) parts.push(given.sources + (given.sources > 1 ? " sources" : " source"));
    at("chosen").textContent = parts.join(", ") || "as usual";
  }

  async function pick(clip) {
    try {
      location.hash = (await server.pick(clip.id, options())).id;
    } catch (error) {
      alert(error.message + "\n" + error.remedy);
    }
    refresh();
  }

  function is(file, kind) { return file.type.startsWith(kind + "/"); }

  /** Files that were chosen together: photos and sounds go in pairs, everything else for itself, all in their order. */
  function take(files) {
    var all = Array.from(files), sounds = all.filter(function (file) { return is(file, "audio"); });
    var photos = all.filter(function (file) { return is(file, "image") && file.type !== "image/gif"; }), pairs = photos.length === sounds.length;
    var clips = all.filter(function (file) { return !pairs || !sounds.includes(file); }).map(function (file) {
      return pairs && photos.includes(file) ? [file, sounds[photos.indexOf(file)]] : [file];
    });
    var batch = String(crypto.getRandomValues(new Uint32Array(1))[0]);
    clips.forEach(function (clip) { queue(clip, batch, clips.length === 1); });
  }

  var sending = Promise.resolve(); // one after the other, so that jobs come in the order that files were chosen in

  function queue(files, batch, alone) {
    var total = files.reduce(function (sum, file) { return sum + file.size; }, 0);
    var upload = { id: "upload-" + crypto.getRandomValues(new Uint32Array(1))[0], name: files[0].name, files: files, batch: batch, state: "uploading", done: 0, total: total, options: options() };
    upload.abort = function () { upload.unwanted = true; if (upload.request) upload.request.abort(); };
    uploads.push(upload);
    if (alone) location.hash = upload.id;
    render();
    sending = sending.then(function () { return send(upload); });
  }

  async function send(upload) {
    var photo = upload.files[0], sound = upload.files[1], about = Object.assign({ batch: upload.batch }, upload.options), job = null;
    function part(file, about, before) {
      upload.request = server.upload(file, about, function (done) {
        upload.done = before + done;
        render();
      });
      return upload.request.done;
    }
    try {
      var large = upload.files.find(function (file) { return file.size > session.limit_bytes; });
      if (large) throw Object.assign(new Error(large.name + " is larger than " + own.size(session.limit_bytes) + "."), { remedy: "Cut it, or start the server with a larger --limit-mb." });
      if (sound && !upload.unwanted) {
        var half = await part(sound, { half: true }, 0);
        if (half) about.sound = half.sound;
      }
      if (!upload.unwanted) job = await part(photo, about, sound ? sound.size : 0);
      if (job) jobs = await server.jobs().catch(function () { return [job].concat(jobs); }); // at its place among the others
      uploads.splice(uploads.indexOf(upload), 1);
      if (open() === upload.id) history.replaceState(null, "", job ? "#" + job.id : "#");
    } catch (error) {
      Object.assign(upload, { state: "failed", error: error.message, remedy: error.remedy || "" });
    }
    render();
    await refresh();
  }

  // Staying up to date

  async function refresh() {
    clearTimeout(timer);
    var wait = LATER_MS;
    try {
      jobs = await server.jobs();
      if (!session.model) session = await server.session(); // it is being loaded
      at("lost").hidden = true;
      if (jobs.some(going)) wait = SOON_MS;
      render();
    } catch (error) {
      at("lost").hidden = false;
      at("lost").textContent = error.status === 401 ? error.message : "The server is not answering. Trying again…";
      wait = 1500;
    }
    clearTimeout(timer);
    timer = setTimeout(refresh, document.hidden ? LATER_MS : wait);
  }

  async function begin() {
    try {
      session = await server.session();
      var here = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
      at("limit").textContent = (here ? "It stays on this machine. " : "") + "Up to " + own.size(session.limit_bytes) + ".";
      at("set-model").replaceChildren.apply(at("set-model"), [make("option", { value: "" }, ["as usual"])].concat(session.models.map(function (name) { return make("option", { value: name }, [name]); })));
      at("set-fps").placeholder = "as usual: " + session.usual.fps;
      at("set-sources").options[0].text = "as usual: " + (session.usual.sources || "those that sound");
      for (var count = 1; count <= 7; count++) at("set-sources").append(make("option", { value: count }, [String(count)]));
      if (session.folder !== null) {
        at("folder").textContent = session.folder;
        at("shelf").hidden = false;
        clips = await server.clips();
        at("search").hidden = clips.length < MANY;
        renderClips();
      }
    } catch (error) { /* refresh tells, and tries again */ }
    await refresh();
  }

  addEventListener("hashchange", render);
  document.addEventListener("visibilitychange", function () { if (!document.hidden) refresh(); });
  at("search").addEventListener("input", renderClips);
  at("settings").addEventListener("input", showOptions);
  at("file").addEventListener("change", function () {
    take(at("file").files);
    at("file").value = "";
  });
  var depth = 0;
  function veil(change) {
    depth = change ? Math.max(0, depth + change) : 0;
    at("veil").hidden = !depth;
  }
  addEventListener("dragenter", function (event) { event.preventDefault(); veil(1); });
  addEventListener("dragleave", function () { veil(-1); });
  addEventListener("dragover", function (event) { event.preventDefault(); });
  addEventListener("drop", function (event) {
    event.preventDefault();
    veil(0);
    if (event.dataTransfer.files.length) take(event.dataTransfer.files);
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape" && !document.querySelector("dialog[open]") && !document.fullscreenElement && open()) location.hash = "";
  });
  begin();
})(window.soundwhere);
