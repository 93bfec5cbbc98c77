import { readdirSync } from "node:fs";

import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

const features = readdirSync(new URL("./src/features", import.meta.url));

/** One direction of imports: app -> features -> components, live, api -> ui. Features do not know one another. */
const directions = [
  ...features.map((feature) => ({
    files: [`src/features/${feature}/**`],
    patterns: [
      { group: ["@/app/*"], message: "Features do not import the app." },
      {
        group: features.filter((other) => other !== feature).map((other) => `@/features/${other}/*`),
        message: "Features do not import one another: move what both need to components.",
      },
    ],
  })),
  {
    files: ["src/components/**", "src/live/**", "src/api/**", "src/ui/**"],
    patterns: [{ group: ["@/app/*", "@/features/*"], message: "What is shared does not import pages." }],
  },
  {
    files: ["src/ui/**"],
    patterns: [
      {
        group: ["@/app/*", "@/features/*", "@/components/*", "@/live/*", "@/api/*"],
        message: "The design system knows nothing of Allotment.",
      },
    ],
  },
].map(({ files, patterns }) => ({ files, rules: { "no-restricted-imports": ["error", { patterns }] } }));

export default tseslint.config(
  { ignores: ["dist", "node_modules", "src/api/schema.d.ts"] },
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  hooks.configs.flat["recommended-latest"],
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Numbers in labels are what most template strings here are for.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
      // An empty string is often as good as none.
      "@typescript-eslint/prefer-nullish-coalescing": ["error", { ignorePrimitives: { string: true } }],
      // The React Compiler is not in use, and its analysis of memoization with it.
      "react-hooks/preserve-manual-memoization": "off",
      "max-lines": ["error", 400],
      "no-console": "error",
    },
  },
  { files: ["eslint.config.js"], ...tseslint.configs.disableTypeChecked },
  ...directions,
);
