/** Where the card of a step stands. */

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

interface Size {
  width: number;
  height: number;
}

/** Pixels between the card, what it points at, and the edges of the window. */
const GAP = 12;

/** Return the top left corner of a card beside a box: to its right, below, above or to its left.
 *
 * Where it fits nowhere, it stands at the foot of the window, over a part of the box. Without a box it is in the middle. */
export function beside(box: Box | null, card: Size, view: Size): { left: number; top: number } {
  const within = (at: number, size: number, room: number) => Math.max(GAP, Math.min(at, room - size - GAP));
  const middle = within((view.width - card.width) / 2, card.width, view.width);
  if (box === null) return { left: middle, top: within((view.height - card.height) / 2, card.height, view.height) };
  const right = box.left + box.width + GAP;
  const below = box.top + box.height + GAP;
  const left = within(box.left, card.width, view.width);
  const top = within(box.top, card.height, view.height);
  if (right + card.width + GAP <= view.width) return { left: right, top };
  if (below + card.height + GAP <= view.height) return { left, top: below };
  if (box.top - card.height - 2 * GAP >= 0) return { left, top: box.top - card.height - GAP };
  if (box.left - card.width - 2 * GAP >= 0) return { left: box.left - card.width - GAP, top };
  return { left: middle, top: view.height - card.height - GAP };
}
