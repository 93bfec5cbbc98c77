/** A folder as an archive that is the same whenever the same files are packed by the same browser. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { createTarPacker, type TarPackController } from "modern-tar";

import type { ChosenFile } from "@/features/submit/folder/chosen-files";

export interface Packed {
  archive: Blob;
  /** sha256:..., of its bytes. */
  digest: string;
}

/** Pack the files; `onBytes` hears how many of theirs are in it. Ends with an AbortError when the signal says so. */
export async function packFolder(
  files: readonly ChosenFile[],
  onBytes: (done: number) => void,
  signal: AbortSignal,
): Promise<Packed> {
  const { readable, controller } = createTarPacker();
  const hash = sha256.create();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  // The hash needs no secure origin, unlike the browser's own.
  const collecting = readable.pipeThrough(new CompressionStream("gzip"), { signal }).pipeTo(
    new WritableStream<Uint8Array<ArrayBuffer>>({
      write(piece) {
        hash.update(piece);
        pieces.push(piece);
      },
    }),
  );
  // Whichever fails first says why.
  await Promise.all([collecting, addAll(controller, files, onBytes, signal)]);
  return { archive: new Blob(pieces), digest: `sha256:${bytesToHex(hash.digest())}` };
}

async function addAll(
  controller: TarPackController,
  files: readonly ChosenFile[],
  onBytes: (done: number) => void,
  signal: AbortSignal,
): Promise<void> {
  let done = 0;
  for (const { name, file } of files) {
    signal.throwIfAborted();
    const counted = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(piece, next) {
        done += piece.length;
        onBytes(done);
        next.enqueue(piece);
      },
    });
    // A browser does not know who may run a file, and what else differs between machines stays out.
    const entry = controller.add({ name, size: file.size, mode: 0o644, mtime: new Date(0), uid: 0, gid: 0 });
    await file.stream().pipeThrough(counted).pipeTo(entry, { signal });
  }
  controller.finalize();
}
