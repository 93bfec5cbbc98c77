/** Somebody who uses a page in a test: types and clicks without pauses, and only as long as the test runs. */

import { getConfig } from "@testing-library/react";
import userEvent, { type UserEvent } from "@testing-library/user-event";
import { onTestFinished } from "vitest";

/**
 * A test that ran into its time limit is not stopped: it would go on into the page of the next one. Here whatever it
 * awaits from its end on never comes. What is covered by a dialog cannot be clicked, nor can the dialog itself until it
 * is drawn once more, so a click that comes too early is tried again.
 */
export function aUser(): UserEvent {
  let isOver = false;
  onTestFinished(() => {
    isOver = true;
  });
  return new Proxy(userEvent.setup({ delay: null }), {
    get(user, name) {
      const does: unknown = Reflect.get(user, name);
      if (typeof does !== "function") return does;
      return (...given: unknown[]): unknown =>
        onceUncovered((): unknown => (isOver ? new Promise(() => undefined) : Reflect.apply(does, user, given)));
    },
  });
}

async function onceUncovered(act: () => unknown): Promise<unknown> {
  const end = performance.now() + getConfig().asyncUtilTimeout;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      // It is thrown before anything happens to the page.
      if (!String(error).includes("`pointer-events: none`") || performance.now() > end) throw error;
      await new Promise((wake) => setTimeout(wake, 10));
    }
  }
}
