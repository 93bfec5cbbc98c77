import { lazyRouteComponent } from "@tanstack/react-router";

export const UNREACHABLE = "The server cannot be reached.";

/** Whether the server answers at all. */
export async function answers(): Promise<boolean> {
  return fetch("/healthz", { cache: "no-store" }).then(
    () => true,
    () => false,
  );
}

/**
 * Fetch the code of a page. The router reloads the document for a file that is missing, as after an upgrade of the
 * server. Without a server that would end in an error page of the browser, so this fails in other words.
 */
export async function codeOf<Module>(load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch (error) {
    throw (await answers()) ? error : new Error(UNREACHABLE);
  }
}

/** A page whose code is fetched when it is opened. */
export function lazyPage<Module extends Record<string, unknown>, Name extends keyof Module>(
  load: () => Promise<Module>,
  name: Name,
) {
  return lazyRouteComponent<Module, Name>(() => codeOf(load), name);
}
