// lint.js FILE: what `redocly lint` does with its recommended rules, by the library that it stands on, which is a
// tenth of its size and talks to nobody. Prints what it finds; exit status 1 if that is anything, warnings too.
const { createConfig, lint } = require('@redocly/openapi-core');

(async () => {
  const config = await createConfig({ extends: ['recommended'] });
  const found = await lint({ ref: process.argv[2], config });
  for (const { severity, ruleId, message, location } of found)
    console.log(`${severity} ${ruleId}: ${message} (${location[0].pointer})`);
  process.exitCode = found.length > 0 ? 1 : 0;
})();
