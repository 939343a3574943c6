// Which texts and controls of a page are cut, lie over each other, or leave their place.
() => {
  // Pixels that do not matter: glyphs are not as even as boxes.
  const SLACK = 2;
  const found = [];
  const items = [];

  const about = (text) => text.trim().replace(/\s+/g, " ").slice(0, 50);
  const note = (what, one) => found.push(`${what}: ${one.name} "${about(one.text)}"`);
  const styleOf = (element) => getComputedStyle(element);

  // Hidden, or put where only a screen reader finds it.
  const unseen = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const style = styleOf(at);
      if (style.display === "none" || style.visibility === "hidden") return true;
      if (style.clipPath !== "none") return true;
      const box = at.getBoundingClientRect();
      if (style.position === "absolute" && box.right <= 0) return true;
    }
    return false;
  };

  const blockOf = (element) => {
    let at = element;
    while (["inline", "contents"].includes(styleOf(at).display)) at = at.parentElement;
    return at;
  };

  const add = (element, text, rects) => {
    for (const rect of rects) {
      if (rect.width > 0 && rect.height > 0)
        items.push({ element, text, rect, name: element.tagName.toLowerCase() });
    }
  };

  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    const ignored = parent.closest("script, style, option, textarea");
    if (ignored || !node.data.trim() || unseen(parent)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    add(parent, node.data, range.getClientRects());
  }
  for (const control of document.querySelectorAll("input, select, textarea, button")) {
    if (control.type === "hidden" || unseen(control)) continue;
    const shown = control.value || control.textContent;
    add(control, shown, [control.getBoundingClientRect()]);
    if (control.scrollWidth > control.clientWidth + SLACK && control.clientWidth)
      note("cut", { name: control.tagName.toLowerCase(), text: shown });
  }

  for (const one of items) {
    const { rect, element } = one;
    if (rect.right > innerWidth + SLACK || rect.left < -SLACK) note("beyond the page", one);
    const box = blockOf(element).getBoundingClientRect();
    const leaves =
      rect.left < box.left - SLACK || rect.right > box.right + SLACK ||
      rect.top < box.top - SLACK || rect.bottom > box.bottom + SLACK;
    if (leaves) note("leaves its box", one);
    for (let at = element; at !== document.body; at = at.parentElement) {
      if (styleOf(at).overflow === "visible") continue;
      const edge = at.getBoundingClientRect();
      const cut =
        rect.left < edge.left - SLACK || rect.right > edge.right + SLACK ||
        rect.top < edge.top - SLACK || rect.bottom > edge.bottom + SLACK;
      if (cut && at !== element) note("cut", one);
    }
  }

  items.sort((one, other) => one.rect.top - other.rect.top);
  items.forEach((one, index) => {
    for (let next = index + 1; next < items.length; next++) {
      const other = items[next];
      if (other.rect.top > one.rect.bottom) break;
      if (one.element.contains(other.element) || other.element.contains(one.element)) continue;
      const wide = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left);
      const high = Math.min(one.rect.bottom, other.rect.bottom) - Math.max(one.rect.top, other.rect.top);
      if (wide > SLACK && high > SLACK) note(`over "${about(other.text)}"`, one);
    }
  });
  return [...new Set(found)];
}
