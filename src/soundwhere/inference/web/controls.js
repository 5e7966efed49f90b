/* Controls: small elements, the row below the picture, the panel beside it, the list of keys. */
"use strict";
window.soundwhere = window.soundwhere || {};

(function (own) {
  var ICONS = {
    play: "M7 4.5v15l12.5-7.5z",
    pause: "M6.5 5h4v14h-4zM13.5 5h4v14h-4z",
    back: "M5 5h2.6v14H5zM19 5v14L9 12z",
    forward: "M16.4 5H19v14h-2.6zM5 5v14l10-7z",
    loud: "M4 9.5v5h3.5L12 19V5L7.5 9.5zM14.5 8.6v6.8c1.4-.6 2.2-1.9 2.2-3.4s-.8-2.800-2.200-3.400zM14.500 4.500v2c2.600.7 4.300 2.900 4.300 5.500s-1.700 4.800-4.300 5.500v2c3.700-.8 6.300-3.900 6.300-7.500s-2.600-6.700-6.300-7.500z",
    mute: "M4 9.500v5h3.500L12 19V5L7.500 9.500zM20.500 9.900l-1.400-1.400-2.100 2.100-2.100-2.100-1.400 1.400 2.100 2.100-2.100 2.100 1.400 1.400 2.100-2.100 2.100 2.100 1.400-1.400-2.100-2.100z",
    loop: "M7 7h9V4l5 4.500L16 13v-3H9v4H6V8a1 1 0 0 1 1-1zM17 17H8v3l-5-4.500L8 11v3h7v-4h3v6a1 1 0 0 1-1 1z",
    full: "M4 4h6v2.500H6.500V10H4zM14 4h6v6h-2.500V6.500H14zM4 14h2.500v3.500H10V20H4zM17.500 14H20v6h-6v-2.500h3.500z",
    camera: "M9 4.500 7.500 6.500H4.500A1.500 1.500 0 0 0 3 8v10a1.500 1.500 0 0 0 1.500 1.500h15A1.500 1.500 0 0 0 21 18V8a1.500 1.500 0 0 0-1.500-1.500h-3L15 4.500zM12 9a4 4 0 1 1 0 8 4 4 0 0 1 0-8z",
    film: "M11 4h2v8.500l3-3 1.400 1.400L12 16.300l-5.400-5.400L8 9.500l3 3zM5 18h14v2H5z",
    help: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm1 14.500h-2v-2h2zm1.600-6.300c-.9.900-1.600 1.300-1.600 2.800h-2c0-2.200.9-3 1.700-3.800.7-.6 1.100-1 1.100-1.700a1.800 1.800 0 0 0-3.600 0H8.200a3.800 3.800 0 0 1 7.600 0c0 1.200-.6 2-1.200 2.700z",
  };

  own.KEYS = [
    ["Space", "play and pause"],
    ["← →", "one second back or forward; five with Shift"],
    [", .", "one frame back or forward"],
    ["Home End", "beginning and end"],
    ["1 2 …", "a source on or off; 0 for all of them"],
    ["↑ ↓", "more or less opaque"],
    ["C", "compare: plain on the left, heat on the right"],
    ["P", "switch to the plain picture and back"],
    ["L", "repeat"],
    ["M", "mute"],
    ["F", "full screen"],
    ["?", "this list"],
  ];

  /** An element; `style` is an object, for a page may forbid style attributes. Children are text or elements. */
  own.element = function (tag, attributes, children) {
    var made = document.createElement(tag);
    Object.entries(attributes || {}).forEach(function (pair) {
      if (pair[0] === "style") {
        Object.entries(pair[1]).forEach(function (rule) { made.style.setProperty(rule[0], rule[1]); });
      } else if (pair[0].startsWith("on")) made.addEventListener(pair[0].slice(2), pair[1]);
      else if (pair[1] === true) made.setAttribute(pair[0], "");
      else if (pair[1] !== false && pair[1] != null) made.setAttribute(pair[0], pair[1]);
    });
    made.append.apply(made, children || []);
    return made;
  };

  /** A drawn sign. */
  own.icon = function (name) {
    var holder = document.createElement("span");
    holder.className = "icon";
    holder.innerHTML = '<svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path fill="currentColor" d="' + ICONS[name] + '"/></svg>';
    return holder;
  };

  /** A button with a sign; it gives the focus back when it was clicked with a pointer, so that keys keep working. */
  own.button = function (name, label, act, key) {
    return own.element("button", {
      type: "button", class: "tool", "aria-label": label, title: label + (key ? " (" + key + ")" : ""),
      onclick: function (event) {
        if (event.detail) event.currentTarget.blur();
        act();
      },
    }, [own.icon(name)]);
  };

  /** A size in bytes as people write it. */
  own.size = function (bytes) {
    var units = ["B", "kB", "MB", "GB"], value = bytes, unit = 0;
    while (value >= 1000 && unit < 3) {
      value /= 1000;
      unit++;
    }
    return (unit && value < 10 ? value.toFixed(1) : String(Math.round(value))) + " " + units[unit];
  };

  /** The list of keys, in a dialog. */
  own.help = function () {
    var rows = own.KEYS.map(function (row) {
      var keys = row[0].split(" ").map(function (key) { return own.element("kbd", {}, [key]); });
      return own.element("tr", {}, [own.element("td", {}, keys), own.element("td", {}, [row[1]])]);
    });
    var close = own.element("button", { class: "plain-button", value: "close" }, ["Close"]);
    return own.element("dialog", { class: "keys", "aria-label": "Keys" }, [
      own.element("h2", {}, ["Keys"]),
      own.element("table", {}, [own.element("tbody", {}, rows)]),
      own.element("form", { method: "dialog" }, [close]),
    ]);
  };

  /** A row of choices of which one is taken. */
  own.choice = function (label, options, choose) {
    var buttons = options.map(function (option) {
      return own.element("button", {
        type: "button", "data-value": option[0], "aria-pressed": "false", title: option[2],
        onclick: function (event) {
          if (event.detail) event.currentTarget.blur();
          choose(option[0]);
        },
      }, [option[1]]);
    });
    var row = own.element("div", { class: "choice", role: "group", "aria-label": label }, buttons);
    row.take = function (value) {
      buttons.forEach(function (button) { button.setAttribute("aria-pressed", String(button.dataset.value === value)); });
    };
    return row;
  };

  /** Time spans in words, to a tenth of a second; the first few of many. */
  own.spans = function (spans) {
    var told = spans.slice(0, 4).map(function (span) { return own.clock(span[0], true) + "–" + own.clock(Math.max(span[1], span[0] + 0.1), true); });
    return told.join(", ") + (spans.length > 4 ? " and " + (spans.length - 4) + " more" : "");
  };

  /** A source in the panel: switch, colour, a name to type, place, time spans, and how surely it is found right now. */
  own.sourceRow = function (source, layer, changed) {
    var make = own.element, usual = "Source " + source.number;
    var seconds = source.spans_s.reduce(function (sum, span) { return sum + span[1] - span[0]; }, 0);
    var heard = source.spans_s.length ? source.where + " ·\u00a0" + seconds.toFixed(1) + "\u00a0s" : "not heard";
    var name = make("input", {
      type: "text", class: "name", maxlength: "40", placeholder: usual, "aria-label": "Name of source " + source.number, title: "Type a name",
      spellcheck: "false", oninput: function () { changed({ name: name.value.trim() }); },
      onkeydown: function (event) { if (event.key === "Enter" || event.key === "Escape") { name.blur(); event.stopPropagation(); } },
    });
    var colour = make("input", {
      type: "color", value: layer.colour, "aria-label": "Colour of source " + source.number, title: "Choose a colour",
      oninput: function () { changed({ colour: colour.value }); },
    });
    var toggle = make("input", {
      type: "checkbox", role: "switch", "aria-label": "Show source " + source.number, title: "On and off (" + source.number + ")",
      onchange: function () { changed({ on: toggle.checked }); },
    });
    var meter = make("i", {}), value = make("span", { class: "value" });
    var row = make("li", { class: "source", "data-source": source.number }, [
      colour,
      make("div", { class: "about" }, [name, make("span", {}, [heard]), make("span", { class: "spans" }, [own.spans(source.spans_s)])]),
      toggle,
      make("div", { class: "meter", role: "img" }, [meter]),
      value,
    ]);
    row.show = function (confidence, presence) {
      var text = confidence.toFixed(2);
      meter.style.width = 100 * confidence + "%";
      row.classList.toggle("sounding", presence > 0.5);
      if (value.textContent !== text) {
        value.textContent = text;
        row.querySelector(".meter").setAttribute("aria-label", "Confidence " + text);
      }
    };
    row.take = function (state) {
      colour.value = state.colour;
      toggle.checked = state.on;
      row.classList.toggle("off", !state.on);
      if (document.activeElement !== name) name.value = state.name || "";
    };
    row.take(layer);
    return row;
  };

  /** Links to the files; pictures are many and fold away. */
  own.fileList = function (files) {
    function link(file) {
      return own.element("li", {}, [own.element("a", { href: file.href, download: file.name.split("/").pop() }, [
        own.element("span", {}, [file.name.split("/").pop()]), own.element("small", {}, [file.bytes == null ? "" : own.size(file.bytes)]),
      ])]);
    }
    var inside = files.filter(function (file) { return file.name.includes("/"); });
    var top = files.filter(function (file) { return !file.name.includes("/"); });
    var parts = [own.element("ul", { class: "files" }, top.map(link))];
    if (inside.length) {
      parts.push(own.element("details", {}, [
        own.element("summary", {}, [inside.length + " pictures"]), own.element("ul", { class: "files" }, inside.map(link)),
      ]));
    }
    return parts;
  };
})(window.soundwhere);
