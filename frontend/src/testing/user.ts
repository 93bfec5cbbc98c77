/** Somebody who uses a page in a test: types and clicks without pauses, and only as long as the test runs. */

import userEvent, { type UserEvent } from "@testing-library/user-event";
import { onTestFinished } from "vitest";

/**
 * A test that ran into its time limit is not stopped: it would go on into the page of the next one. Here whatever it
 * awaits from its end on never comes.
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
        isOver ? new Promise(() => undefined) : Reflect.apply(does, user, given);
    },
  });
}
