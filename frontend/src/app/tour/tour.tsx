import { useNavigate } from "@tanstack/react-router";
import { Dialog } from "radix-ui";
import { useEffect, useEffectEvent, useLayoutEffect, useRef, useState } from "react";

import { answerOf, api } from "@/api/client";
import { beside, type Box } from "@/app/tour/beside";
import { type Step, stepsFor } from "@/app/tour/steps";
import { useSession } from "@/components/session";
import { Button } from "@/ui/button";
import styles from "@/app/tour/tour.module.css";

/** The number of the step at which the user left, so that the tour goes on there. */
const STORAGE_KEY = "allot-tour-step";
/** From this width on the navigation stands beside the page. */
const HAS_SIDE = "(min-width: 56.01rem)";
/** Pixels around what a step points at. */
const MARGIN = 4;

/** Points at the parts of the overview that one needs first, one after the other.
 *
 * The page can be used meanwhile: a click there does what it says and ends the tour, as Escape and Skip do. */
export function Tour({ onClose }: { onClose: () => void }) {
  const me = useSession();
  const navigate = useNavigate();
  const [steps] = useState(() => stepsFor(me, window.matchMedia(HAS_SIDE).matches));
  const [at, setAt] = useState(() => Math.min(Number(sessionStorage.getItem(STORAGE_KEY)), steps.length - 1));
  const opener = useRef(document.activeElement);
  const isLast = at === steps.length - 1;
  const step = steps[at];
  const box = useBox(step?.find);
  const card = useCard(box);

  const leave = (next: number) => {
    sessionStorage.setItem(STORAGE_KEY, String(next));
    // Where it cannot be stored, the tour is offered again at the next sign-in.
    answerOf(api.PUT("/session/tour", { body: { seen: true } })).catch(() => undefined);
    onClose();
  };
  const press = useEffectEvent((event: PointerEvent) => {
    if (event.target instanceof Node && !card.current?.contains(event.target)) leave(at);
  });

  useEffect(() => void navigate({ to: "/" }), [navigate]);
  useEffect(() => {
    document.addEventListener("pointerdown", press);
    return () => document.removeEventListener("pointerdown", press);
  }, []);

  if (!step) return null;

  return (
    <Dialog.Root open modal={false} onOpenChange={() => leave(at)}>
      <Dialog.Portal>
        <div className={styles.spot} style={box ?? undefined} data-found={box !== null} aria-hidden />
        <Dialog.Content
          ref={card}
          className={styles.card}
          // Radix waits for the click to be over, and by then a link has led away from the tour. The page may
          // take the focus as it loads, or be reached by the Tab key.
          onInteractOutside={(event) => event.preventDefault()}
          onOpenAutoFocus={(event) => {
            event.preventDefault();
            card.current?.querySelector<HTMLElement>("[data-next]")?.focus();
          }}
          onCloseAutoFocus={(event) => {
            event.preventDefault();
            const from = opener.current;
            const to = from instanceof HTMLElement && from !== document.body && from.isConnected ? from : null;
            (to ?? document.getElementById("main"))?.focus({ preventScroll: true });
          }}
        >
          <p className={styles.count}>
            Tour, step {at + 1} of {steps.length}
          </p>
          {/* The focus stays on Next: a screen reader reads the new step without it. */}
          <div aria-live="polite" className={styles.step}>
            <Dialog.Title>{step.title}</Dialog.Title>
            <Dialog.Description>{step.text}</Dialog.Description>
          </div>
          <div className={styles.actions}>
            {!isLast && (
              <Button look="quiet" className={styles.skip} onClick={() => leave(at)}>
                Skip
              </Button>
            )}
            {at > 0 && <Button onClick={() => setAt(at - 1)}>Back</Button>}
            <Button look="primary" data-next onClick={() => (isLast ? leave(0) : setAt(at + 1))}>
              {isLast ? "Done" : "Next"}
            </Button>
          </div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** Where the element of a step is now; null while there is none. It follows what loads, scrolls and changes its size. */
function useBox(find: Step["find"] | undefined): Box | null {
  const [box, setBox] = useState<Box | null>(null);
  const isInView = useRef(false);
  const look = useEffectEvent(() => {
    const element = find?.() ?? null;
    if (element && !isInView.current) bringIntoView(element);
    isInView.current = element !== null;
    const found = element && around(element.getBoundingClientRect());
    setBox((known) => (found && known && isSame(found, known) ? known : found));
  });
  useEffect(() => {
    isInView.current = false;
    let frame = 0;
    const again = () => {
      look();
      frame = requestAnimationFrame(again);
    };
    again();
    return () => cancelAnimationFrame(frame);
  }, [find]);
  return box;
}

function around({ left, top, width, height }: DOMRect): Box {
  return { left: left - MARGIN, top: top - MARGIN, width: width + 2 * MARGIN, height: height + 2 * MARGIN };
}

function isSame(a: Box, b: Box): boolean {
  return a.left === b.left && a.top === b.top && a.width === b.width && a.height === b.height;
}

function bringIntoView(element: Element): void {
  const { top, bottom } = element.getBoundingClientRect();
  const isTall = bottom - top > window.innerHeight / 2;
  if (top < 0 || bottom > window.innerHeight) element.scrollIntoView({ block: isTall ? "start" : "center" });
}

/** The card, which is moved beside the box before each is drawn. */
function useCard(box: Box | null) {
  const card = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = card.current;
    if (!element) return;
    const { offsetWidth: width, offsetHeight: height } = element;
    const { left, top } = beside(box, { width, height }, { width: window.innerWidth, height: window.innerHeight });
    element.style.left = `${left}px`;
    element.style.top = `${top}px`;
  });
  return card;
}
