/** Days, as date fields give them. */
export interface Days {
  since?: string | undefined;
  until?: string | undefined;
}

/** The instants between which these days lie, by the reader's clock; both days are whole. */
export function instantsOf({ since, until }: Days): Days {
  const dayAfter = until ? new Date(`${until}T00:00`) : undefined;
  dayAfter?.setDate(dayAfter.getDate() + 1);
  return { since: since ? new Date(`${since}T00:00`).toISOString() : undefined, until: dayAfter?.toISOString() };
}
