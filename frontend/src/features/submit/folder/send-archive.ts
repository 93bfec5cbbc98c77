import { answerOf, api, ApiError, changingHeaders, refusalOf } from "@/api/client";
import type { StoredArchive } from "@/api/schema";
import type { Packed } from "@/features/submit/folder/pack-folder";

/** Store an archive for a tenant, unless it is there; `onSent` hears of its bytes. Aborts with an AbortError. */
export async function sendArchive(
  tenant: string,
  { archive, digest }: Packed,
  onSent: (bytes: number) => void,
  signal: AbortSignal,
): Promise<StoredArchive> {
  const params = { path: { name: tenant, digest } };
  try {
    return await answerOf(api.GET("/tenants/{name}/archives/{digest}", { params, signal }));
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error;
  }
  return await put(`/api/v1/tenants/${encodeURIComponent(tenant)}/archives/${digest}`, archive, onSent, signal);
}

/** `fetch` does not say how far a body is. */
function put(
  address: string,
  body: Blob,
  onSent: (bytes: number) => void,
  signal: AbortSignal,
): Promise<StoredArchive> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", address);
    request.responseType = "json";
    for (const [name, value] of Object.entries(changingHeaders())) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = ({ loaded }) => onSent(loaded);
    request.onload = () => {
      if (request.status < 300) resolve(request.response as StoredArchive);
      else reject(refusalOf(request.status, request.response));
    };
    request.onerror = () =>
      reject(new ApiError(0, "unreachable", "The upload was cut off; nothing was stored. Choose the folder again."));
    request.onabort = () => reject(new DOMException("The upload was cancelled.", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    if (signal.aborted) request.abort();
    request.send(body);
  });
}
