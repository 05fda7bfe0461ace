// `@temporalio/proto`, as the process has loaded it once (`environment.config.mjs`): each test file would take a tenth of
// a second to build its descriptions anew. They are data and codecs, and keep nothing of who uses them.
/** @type {{ loadedOnce: { proto: () => unknown } }} */
const { loadedOnce } = globalThis;
module.exports = loadedOnce.proto();
