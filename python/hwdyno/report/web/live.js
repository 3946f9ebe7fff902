"use strict";
(() => {
  const live = document.getElementById("live"), left = document.getElementById("left");
  const EVERY_MS = 2000, HIDDEN_MS = 10000;
  let tag = "", ahead = 0;

  const words = (s) => s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  const tell = () => {
    const until = Number(live.querySelector("[data-until]")?.dataset.until);
    if (!until) { left.textContent = ""; return; }
    const rest = Math.round(until - (Date.now() + ahead) / 1000);
    left.textContent = rest > 0 ? `: ${words(rest)} left` : ": ending";
  };

  // Only what changed is put into the page: a chart that is read keeps its place and its tip.
  const show = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html").body;
    const known = new Map([...live.children].map((part) => [part.id, part]));
    live.replaceChildren(...[...next.children].map((part) => {
      const old = known.get(part.id);
      return old && old.dataset.tag && old.dataset.tag === part.dataset.tag ? old : part;
    }));
  };

  const ask = async () => {
    let state = "";
    try {
      const answer = await fetch(live.dataset.part, { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
      if (answer.status === 404) { location.replace(live.dataset.ended); return; }
      const served = Date.parse(answer.headers.get("Date"));
      if (served) ahead = served - Date.now();
      if (answer.status === 200) { tag = answer.headers.get("ETag") ?? ""; show(await answer.text()); }
      else if (answer.status !== 304) state = "The server is busy; the page goes on as soon as it answers.";
    } catch { state = "The server does not answer; the page goes on as soon as it does."; }
    document.getElementById("state").textContent = state;
    if (!state) tell();
    setTimeout(ask, document.hidden ? HIDDEN_MS : EVERY_MS);
  };
  ask();
})();
