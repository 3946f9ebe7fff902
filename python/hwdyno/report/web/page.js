"use strict";
(() => {
  const data = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = data("specs"), themes = data("themes"), root = document.documentElement;

  // Light or dark: the reader's system decides until the button is pressed. A file may not be allowed to remember.
  const remembered = { get: () => { try { return localStorage.getItem("hwdyno-theme"); } catch { return null; } },
                       set: (name) => { try { localStorage.setItem("hwdyno-theme", name); } catch { /* then for this visit */ } } };
  if (remembered.get()) root.dataset.theme = remembered.get();
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remembered.set(root.dataset.theme);
  });

  const tip = document.getElementById("tip");
  const showTip = (_, event, item, value) => {
    if (value === null || value === undefined || value === "") { tip.hidden = true; return; }
    const box = document.createElement("div");
    for (const [name, said] of Object.entries(value)) {
      for (const text of [name, said]) { const cell = document.createElement("span"); cell.textContent = text; box.append(cell); }
    }
    tip.replaceChildren(box);
    tip.hidden = false;
    const x = event.clientX + 14, y = event.clientY + 14;
    tip.style.left = `${Math.max(8, Math.min(x, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + tip.offsetHeight > innerHeight - 8 ? event.clientY - tip.offsetHeight - 12 : y}px`;
  };

  // Colours are the page's variables, so a chart is drawn once for light, dark and paper.
  // `ast`: Vega interprets its expressions, for the page's policy allows no eval.
  const plain = { mode: "vega-lite", actions: false, defaultStyle: false, logLevel: 1, ast: true };
  const draw = async (place) => {
    if (place.dataset.drawn) return;
    place.dataset.drawn = "1";
    const spec = { ...specs[place.dataset.chart], width: "container", height: 300, autosize: { type: "fit-x", contains: "padding" } };
    await vegaEmbed(place, spec, { ...plain, config: themes.page, renderer: "svg", tooltip: showTip });
  };
  // All charts in sight of an open page are drawn before it counts as loaded, so that a picture or a print of it has
  // them without scrolling; of a long page the rest follows at once. What is folded is drawn when it is opened.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "400px" });
  const places = [...document.querySelectorAll(".drawing")], open = (place) => place.offsetParent;
  const AT_ONCE = 12;
  places.filter((place) => !open(place)).forEach((place) => seen.observe(place));
  const first = places.filter(open), later = first.splice(AT_ONCE);
  (async () => { for (const place of first) await draw(place); })();
  const follow = async () => { if (later.length) { await draw(later.shift()); setTimeout(follow); } };
  addEventListener("load", follow);
  addEventListener("beforeprint", () => places.filter(open).forEach(draw));
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  const save = (name, href) => { const link = document.createElement("a"); link.href = href; link.download = name; link.click(); };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-save]");
    if (!button) return;
    const spec = { ...specs[button.dataset.of], width: 640, height: 320 };
    const figure = button.closest("figure");
    spec.title = figure.querySelector("h3").textContent;
    const { view } = await vegaEmbed(document.createElement("div"), spec, { ...plain, config: themes.paper });
    save(`${figure.id.slice(6)}.${button.dataset.save}`, await view.toImageURL(button.dataset.save, 2));
  });
  document.getElementById("download").addEventListener("click", (event) => {
    const text = document.getElementById("run").textContent;
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    save(event.currentTarget.dataset.name, url);
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
})();
