// Shows the findings with every word that is typed, and opens the lesson that the address names.
"use strict";
{
  const field = document.getElementById("filter");
  const count = document.getElementById("count");
  const families = [...document.querySelectorAll("article > section > section")].map((family) => {
    const heading = family.querySelector("h2").textContent;
    const rules = [...family.querySelectorAll(":scope > section")];
    return { family, rules, texts: rules.map((rule) => `${heading} ${rule.textContent}`.toLowerCase()) };
  });
  const total = families.reduce((sum, { rules }) => sum + rules.length, 0);

  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const { family, rules, texts } of families) {
      const hits = texts.map((text) => words.every((word) => text.includes(word)));
      rules.forEach((rule, at) => { rule.hidden = !hits[at]; });
      family.hidden = !hits.includes(true);
      found += hits.filter(Boolean).length;
    }
    count.value = `${found} of ${total}`;
  };

  const open = () => {
    const lesson = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (lesson instanceof HTMLDetailsElement) lesson.open = true;
  };

  field.addEventListener("input", filter);
  addEventListener("hashchange", open);
  field.parentElement.hidden = false;
  filter();
  open();
}
