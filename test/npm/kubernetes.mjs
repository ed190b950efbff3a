// kubernetes.mjs DIR: checks the manifests that DIR/kustomization.yaml names against the types of Kubernetes: what is
// missing, of another type, or unknown there. To be run by test/deploy.sh.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const dir = process.argv[2];
const root = new URL("../../build/npm/", import.meta.url).pathname;
const require = createRequire(root);
const yaml = require("js-yaml");

const problems = [];
const kustomization = yaml.load(readFileSync(join(dir, "kustomization.yaml"), "utf8"));
const named = kustomization.resources;
for (const file of readdirSync(dir))
  if (file !== "kustomization.yaml" && !named.includes(file)) problems.push(`${file} is not named in kustomization.yaml`);

// TypeScript tells of members that the schema does not know, which the schema's own check passes over.
const work = mkdtempSync(join(root, "kubernetes-"));
try {
  let source = "";
  let number = 0;
  for (const file of named)
    for (const object of yaml.loadAll(readFileSync(join(dir, file), "utf8"))) {
      const { apiVersion, kind } = object;
      const path = `kubernetes-models/${apiVersion}/${kind}`;
      const model = (await import(join(root, "node_modules", `${path}.js`)))[kind];
      try {
        new model(object).validate();
      } catch (error) {
        problems.push(`${file}: ${error.message}`);
      }
      number++;
      source += `import { I${kind} as T${number} } from "${path}";\n// ${file}\n`;
      source += `export const o${number}: T${number} = ${JSON.stringify(object, null, 1)};\n`;
    }
  writeFileSync(join(work, "manifests.ts"), source);
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const flags = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext"];
  try {
    execFileSync(process.execPath, [tsc, ...flags, join(work, "manifests.ts")], { encoding: "utf8" });
  } catch (error) {
    problems.push(error.stdout);
  }
} finally {
  rmSync(work, { recursive: true });
}
for (const problem of problems) console.error(problem);
process.exit(problems.length ? 1 : 0);
