/**
 * Code that all runs of a worker thread share (`preloadModules` of the bundler), so that no run pays for its schemas.
 *
 * 1. Nothing that is loaded from here holds state of a run. Temporal's SDK freezes what these modules export.
 * 2. Schemas are left out of that, because they keep what they derive from themselves: each module of them that is loaded from
 *    here stands in the list (test/architecture/bundle.test.ts).
 */
import * as answer from '../contracts/schemas/answer.ts';
import * as call from '../contracts/schemas/call.ts';
import * as catalog from '../contracts/schemas/catalog.ts';
import * as input from '../contracts/schemas/input.ts';
import * as json from '../contracts/schemas/json.ts';
import * as legacy from '../contracts/schemas/legacy-2025.ts';
import * as policy from '../contracts/schemas/policy.ts';
import * as runSpec from '../contracts/schemas/run-spec.ts';
import * as tool from '../contracts/schemas/tool.ts';
import * as trust from '../contracts/schemas/trust.ts';
import '../domain/shapes/messages.ts';

/** The freezing passes by what is frozen, and an object with getters alone is, once nothing can be added to it. */
const SCHEMAS = [answer, call, catalog, input, json, legacy, policy, runSpec, tool, trust];
for (const schemas of SCHEMAS) Object.preventExtensions(schemas);
