import { useQuery } from "@tanstack/react-query";

import { gpuModelsQuery } from "@/api/queries";

/** In which the site's prices and costs are, such as "EUR"; null: in cost units, or not known yet. */
export const useCurrency = () => useQuery(gpuModelsQuery).data?.[0]?.currency ?? null;
