/**
 * Code that all runs of a worker thread share (`preloadModules` of the bundler), so that no run pays for its schemas.
 *
 * 1. Nothing that is loaded from here holds state of a run. Temporal's SDK freezes what these modules export.
 * 2. Schemas are left out of that, because they keep what they derive from themselves: each module of them that is loaded from
 *    here stands in the list (test/architecture/bundle.test.ts).
 */
import * as authorization from '../contracts/schemas/authorization.ts';
import * as catalog from '../contracts/schemas/catalog.ts';
import * as codecKey from '../contracts/schemas/codec-key.ts';
import * as decision from '../contracts/schemas/decision.ts';
import * as heldInput from '../contracts/schemas/held-input.ts';
import * as input from '../contracts/schemas/input.ts';
import * as json from '../contracts/schemas/json.ts';
import * as policy from '../contracts/schemas/policy.ts';
import * as provision from '../contracts/schemas/provision.ts';
import * as resolution from '../contracts/schemas/resolution.ts';
import * as runSpec from '../contracts/schemas/run-spec.ts';
import * as tool from '../contracts/schemas/tool.ts';
import * as trust from '../contracts/schemas/trust.ts';
import '../domain/messages.ts';

/** The freezing passes by what is frozen, and an object with getters alone is, once nothing can be added to it. */
const SCHEMAS = [
  authorization,
  catalog,
  codecKey,
  decision,
  heldInput,
  input,
  json,
  policy,
  provision,
  resolution,
  runSpec,
  tool,
  trust,
];
for (const schemas of SCHEMAS) Object.preventExtensions(schemas);
