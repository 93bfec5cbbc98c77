import { Download } from "lucide-react";

import { buttonClass } from "@/ui/button";

interface FileLinksProps {
  /** Of an export, with the filters of what is shown. */
  address: string;
}

/** The shown list as a file: CSV for spreadsheets, Parquet with types for programs. */
export function FileLinks({ address }: FileLinksProps) {
  const join = address.includes("?") ? "&" : "?";
  return (
    <>
      <a className={buttonClass()} href={address} download>
        <Download size={15} aria-hidden /> CSV
      </a>
      <a className={buttonClass()} href={`${address}${join}format=parquet`} download>
        <Download size={15} aria-hidden /> Parquet
      </a>
    </>
  );
}
