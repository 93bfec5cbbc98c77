import type { StoredArchive } from "@/api/schema";
import { chosenFiles } from "@/features/submit/folder/chosen-files";
import { packFolder } from "@/features/submit/folder/pack-folder";
import { sendArchive } from "@/features/submit/folder/send-archive";

export interface Step {
  what: "Packing" | "Uploading";
  folder: string;
  /** In bytes. */
  done: number;
  total: number;
}

export type Brought = StoredArchive & { folder: string };

/** Pack the chosen folder and store it for a tenant; `onStep` hears how far that is. */
export async function bringFolder(
  tenant: string,
  list: readonly File[],
  onStep: (step: Step) => void,
  signal: AbortSignal,
): Promise<Brought> {
  const { folder, files } = await chosenFiles(list);
  const tell = (what: Step["what"], total: number) => (done: number) => onStep({ what, folder, done, total });
  const packing = tell(
    "Packing",
    files.reduce((sum, { file }) => sum + file.size, 0),
  );
  packing(0);
  const packed = await packFolder(files, packing, signal);
  const uploading = tell("Uploading", packed.archive.size);
  uploading(0);
  return { ...(await sendArchive(tenant, packed, uploading, signal)), folder };
}
