import { defineConfig } from 'vite'

export default defineConfig({
  root: import.meta.dirname,
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../../dist/services/dashboard',
    emptyOutDir: true,
    target: 'es2022',
    // Inlined assets would need a policy that allows data: for scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
})
