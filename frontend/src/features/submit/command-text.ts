/** A command as one line for people, and back. Pure. */

/** The line that a shell would run; what is already a line for the shell is shown as it is. */
export function commandText(command: unknown): string {
  if (typeof command === "string") return command;
  if (!Array.isArray(command)) return "";
  const words = command.map(String);
  if (words.length === 3 && words[0] === "sh" && words[1] === "-c") return words[2] ?? "";
  return words.map(quoted).join(" ");
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** `NAME=value` lines of an environment. */
export function environmentText(env: unknown): string {
  if (env === null || typeof env !== "object") return "";
  return Object.entries(env)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join("\n");
}

export function readEnvironment(text: string): Record<string, string> | undefined {
  const pairs = text.split("\n").flatMap((line) => {
    const at = line.indexOf("=");
    const name = (at < 0 ? line : line.slice(0, at)).trim();
    return name ? [[name, at < 0 ? "" : line.slice(at + 1)] as const] : [];
  });
  return pairs.length > 0 ? Object.fromEntries(pairs) : undefined;
}
