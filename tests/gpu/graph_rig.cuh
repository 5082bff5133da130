/* A net as the host hands it to a card (graph/graph.h), made by hand. */
#ifndef WISP_TESTS_GPU_GRAPH_RIG_CUH
#define WISP_TESTS_GPU_GRAPH_RIG_CUH

#include "graph/graph.h"

#include <deque>
#include <vector>

struct graph_rig {
    size_t n_features, n_labels;
    std::vector<struct wisp_layer> layers;
    std::vector<struct wisp_act> acts;
    std::deque<struct wisp_layer_kind> kinds; /* these stay where they are */
    std::deque<std::vector<struct wisp_param>> params;

    graph_rig(size_t features, size_t labels) : n_features(features), n_labels(labels)
    {
        acts.push_back({});
        acts[0].form = WISP_ROWS, acts[0].width = features;
    }
    /* A layer that reads these values, or what the one before it gives; returns its place. */
    size_t add(const char *name, size_t n_out, std::vector<int> from = {})
    {
        struct wisp_layer l = {};
        struct wisp_act a = {};
        if (from.empty()) from.push_back((int)layers.size());
        kinds.push_back({});
        kinds.back().name = name;
        params.push_back({});
        l.kind = &kinds.back(), l.number = (int)layers.size(), l.n_out = n_out;
        for (int f : from) l.from[l.n_from++] = f, acts[(size_t)f].n_readers++;
        l.n_in = acts[(size_t)from[0]].width;
        a.form = WISP_FLAT, a.width = n_out, a.learns = true;
        layers.push_back(l), acts.push_back(a);
        return layers.size() - 1;
    }
    /* The next parameter of the last layer. */
    struct wisp_param *param(size_t rows, size_t cols, float *w)
    {
        struct wisp_param p = {};
        p.rows = rows, p.cols = cols, p.n = rows * cols, p.w = w;
        params.back().push_back(p);
        layers.back().params = params.back().data();
        layers.back().n_params++;
        return &params.back().back();
    }
    struct wisp_param *connections(size_t rows, size_t cols, int32_t *ids)
    {
        struct wisp_param *p = param(rows, cols, NULL);
        p->role = WISP_FIXED, p->ids = ids;
        return p;
    }
    struct wisp_graph graph() const
    {
        return { n_features, n_labels, (int)layers.size(), layers.data(), acts.data() };
    }
};

#endif
