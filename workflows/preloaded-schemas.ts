/**
 * Loads the schemas that all runs of a worker thread share (`preloadModules` of the bundler).
 *
 * 1. No module loaded from here holds state of a run. Temporal's SDK freezes what these modules export.
 * 2. Schema modules must escape the freezing, because schemas cache what they derive from themselves: all of them must
 *    be in the list (test/architecture/bundle.test.ts).
 */
import * as answer from '../contracts/schemas/request.ts';
import * as call from '../contracts/schemas/call.ts';
import * as catalog from '../contracts/schemas/catalog.ts';
import * as input from '../contracts/schemas/input.ts';
import * as json from '../contracts/schemas/json.ts';
import * as legacy from '../contracts/schemas/legacy-2025.ts';
import * as notify from '../contracts/schemas/notify.ts';
import * as policy from '../contracts/schemas/policy.ts';
import * as runSpec from '../contracts/schemas/run-spec.ts';
import * as tool from '../contracts/schemas/tool.ts';
import * as trust from '../contracts/schemas/trust.ts';
import '../domain/shapes/inputs.ts';

/** The SDK skips frozen objects. An object with getters alone counts as frozen once it cannot be extended. */
const SCHEMAS = [answer, call, catalog, input, json, legacy, notify, policy, runSpec, tool, trust];
for (const schemas of SCHEMAS) Object.preventExtensions(schemas);
