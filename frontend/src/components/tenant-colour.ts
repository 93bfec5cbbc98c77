/** A colour for each tenant that stays its own while others come and go. */

export const CROPS = 8;

/** Slots 1 to 8 by name: each tenant's own slot, or the next free one where two would share. */
export function tenantSlots(tenants: Iterable<string>): Map<string, number> {
  const slots = new Map<string, number>();
  const taken = new Set<number>();
  for (const tenant of [...new Set(tenants)].sort()) {
    let slot = hash(tenant) % CROPS;
    if (taken.size < CROPS) while (taken.has(slot)) slot = (slot + 1) % CROPS;
    taken.add(slot);
    slots.set(tenant, slot + 1);
  }
  return slots;
}

/** FNV-1a: spreads short names well. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return value;
}
