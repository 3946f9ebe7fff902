"use strict";
(() => {
  const root = document.documentElement, every = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Light or dark: the reader's system decides until the button is pressed. A file may not be allowed to remember.
  const remembered = { get: () => { try { return localStorage.getItem("hwdyno-theme"); } catch { return null; } },
                       set: (name) => { try { localStorage.setItem("hwdyno-theme", name); } catch { /* then for this visit */ } } };
  if (remembered.get()) root.dataset.theme = remembered.get();
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remembered.set(root.dataset.theme);
  });

  // Contents: the section under the top of the window is marked, and its link is in sight.
  const links = every(".contents a"), sections = links.map((link) => document.getElementById(link.hash.slice(1)));
  const follow = () => {
    const line = innerHeight / 3, end = scrollY + innerHeight >= root.scrollHeight - 2;
    const last = sections.reduce((found, section, at) => section.getBoundingClientRect().top <= line ? at : found, 0);
    const here = scrollY <= 2 ? 0 : end ? links.length - 1 : last;
    links.forEach((link, at) => {
      if (at === here === link.hasAttribute("aria-current")) return;
      link.toggleAttribute("aria-current", at === here);
      const list = link.parentElement;
      if (at === here && list.scrollWidth > list.clientWidth) list.scrollLeft = link.offsetLeft - list.offsetLeft - 40;
    });
  };
  let waiting = false;
  const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; follow(); }); } };
  addEventListener("scroll", soon, { passive: true });
  addEventListener("resize", soon);
  document.addEventListener("toggle", soon, true);
  // A link into a fold opens it.
  const opened = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    const own = target.querySelector(":scope > details.resource");
    if (own) own.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", opened);
  links.forEach((link) => link.addEventListener("click", () => { if (link.hash === location.hash) opened(); }));
  opened();
  follow();

  // Long folds and the run's data are packed: base64 of gzip.
  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpacked = (text) => new Response(new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const unpack = async (holder) => {
    const text = await unpacked(holder.dataset.packed);
    const fold = holder.parentElement;
    holder.outerHTML = text;
    every("svg.plot", fold).forEach((plot) => plot.setAttribute("tabindex", "0"));
    soon();
  };
  document.addEventListener("toggle", (event) => {
    const holder = event.target.open && event.target.querySelector(":scope > [data-packed]");
    if (holder) unpack(holder);
  }, true);

  // Paper has what the resources hold, but no more than the page shows once they are open.
  const closed = [];
  addEventListener("beforeprint", () => {
    for (const fold of every("details.resource:not([open])")) { fold.open = true; closed.push(fold); }
  });
  addEventListener("afterprint", () => { for (const fold of closed.splice(0)) fold.open = false; });

  // Tooltips: what a mark's own title says. The titles leave the chart, or the browser would show them as well.
  const tip = document.getElementById("tip");
  const hide = () => { tip.hidden = true; every(".near").forEach((mark) => mark.classList.remove("near")); };
  const marksOf = (plot) => {
    for (const mark of every(".tipped", plot)) {
      const title = mark.querySelector("title");
      if (title) { mark.dataset.tip = title.textContent; title.remove(); }
    }
    return every(".tipped[data-tip]", plot).filter((mark) => !mark.closest(".faded"));
  };
  const show = (mark, x, y) => {
    const box = document.createElement("div");
    for (const line of mark.dataset.tip.split("\n")) {
      for (const text of line.split("\t")) { const cell = document.createElement("span"); cell.textContent = text; box.append(cell); }
    }
    hide();
    mark.classList.add("near");
    tip.replaceChildren(box);
    tip.hidden = false;
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 14 + tip.offsetHeight > innerHeight - 8 ? Math.max(8, y - tip.offsetHeight - 12) : y + 14}px`;
  };
  const middle = (mark) => { const box = mark.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; };
  const REACH = 24;
  const point = (event) => {
    const plot = event.target.closest?.("svg.plot");
    if (!plot) { if (!tip.hidden) hide(); return; }
    const marks = marksOf(plot), under = event.target.closest(".tipped");
    const points = marks.filter((mark) => mark.tagName !== "rect" && !mark.getAttribute("d")?.includes("H"));
    const far = (mark) => { const [x, y] = middle(mark); return Math.hypot(x - event.clientX, y - event.clientY); };
    const near = points.map((mark) => [far(mark), mark]).sort((a, b) => a[0] - b[0])[0];
    const found = near && near[0] < REACH ? near[1] : under && marks.includes(under) ? under : null;
    if (found) show(found, event.clientX, event.clientY); else hide();
  };
  // A finger only taps.
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, point);
  addEventListener("scroll", hide, { passive: true });
  // By keyboard: arrows go from mark to mark of the chart that has the focus.
  every("svg.plot").forEach((plot) => plot.setAttribute("tabindex", "0"));
  document.addEventListener("keydown", (event) => {
    const plot = event.target.closest?.("svg.plot"), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!plot || !step) return;
    const marks = marksOf(plot), at = marks.findIndex((mark) => mark.classList.contains("near"));
    const next = marks[(at + step + marks.length) % marks.length];
    if (next) { event.preventDefault(); show(next, ...middle(next)); }
  });

  // A click on the legend leaves only some series in sight; all, when none is left out or none chosen.
  document.addEventListener("click", (event) => {
    const entry = event.target.closest("svg.plot .entry");
    if (!entry) return;
    const figure = entry.closest("figure");
    entry.classList.toggle("picked");
    const picked = new Set(every(".entry.picked", figure).map((one) => one.dataset.of));
    every("[data-s]", figure).forEach((one) => one.classList.toggle("faded", picked.size > 0 && !picked.has(one.dataset.s)));
    every(".entry", figure).forEach((one) => one.classList.toggle("faded", picked.size > 0 && !picked.has(one.dataset.of)));
  });

  // Saved pictures stand alone: one below the other under their title, in the colours that the reader sees.
  const save = (name, href) => { const link = document.createElement("a"); link.href = href; link.download = name; link.click(); };
  const NS = "http://www.w3.org/2000/svg", HEAD = 26;
  const alone = (figure) => {
    const whole = document.createElementNS(NS, "svg"), style = getComputedStyle(root);
    let height = HEAD;
    for (const plot of every("svg.plot", figure)) {
      const copy = plot.cloneNode(true), box = plot.viewBox.baseVal;
      Object.entries({ x: 0, y: height, width: box.width, height: box.height }).forEach(([name, value]) => copy.setAttribute(name, value));
      height += box.height;
      whole.append(copy);
    }
    const wide = every("svg.plot", figure)[0].viewBox.baseVal.width;
    const made = (name, attributes, text = "") => {
      const node = document.createElementNS(NS, name);
      Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
      node.textContent = text;
      return node;
    };
    const title = made("text", { x: 4, y: 17, fill: "var(--ink)", "font-size": 14, "font-weight": 600, "font-family": "Helvetica, Arial, sans-serif" },
                       figure.querySelector("h4").textContent);
    whole.prepend(made("rect", { width: wide, height, fill: "var(--paper)" }), title);
    Object.entries({ width: wide, height, viewBox: `0 0 ${wide} ${height}` }).forEach(([key, value]) => whole.setAttribute(key, value));
    const text = new XMLSerializer().serializeToString(whole).replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
    return [text, wide, height];
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-save]");
    if (!button) return;
    const figure = button.closest("figure"), kind = button.dataset.save, name = `${figure.id.replace(/^\w+-/, "")}.${kind}`;
    const [text, wide, height] = alone(figure), link = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    if (kind === "svg") { save(name, link); return; }
    const picture = new Image(), canvas = document.createElement("canvas"), SCALE = 2.5;
    picture.src = link;
    await picture.decode();
    canvas.width = wide * SCALE;
    canvas.height = height * SCALE;
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    save(name, canvas.toDataURL("image/png"));
  });
  document.getElementById("download")?.addEventListener("click", async (event) => {
    const name = event.currentTarget.dataset.name;
    const url = URL.createObjectURL(new Blob([await unpacked(document.getElementById("run").textContent)], { type: "application/json" }));
    save(name, url);
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
})();
